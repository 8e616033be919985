//! What the cell of a strategy defines, read with evcxr's own parser.

use ra_ap_syntax::ast::{self, AstNode, HasDocComments, HasModuleItem, HasName, StructKind};
use ra_ap_syntax::{AstToken, Edition, SourceFile};

/// Types of fields that are settings.
const SETTINGS: &[&str] = &[
    "usize", "u64", "u32", "i64", "i32", "f64", "f32", "bool", "String",
];

/// A field of the strategy's struct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its type as written.
    pub kind: String,
    /// Its documentation in one line.
    pub doc: String,
}

impl Field {
    /// Whether it is a setting.
    pub fn is_setting(&self) -> bool {
        SETTINGS.contains(&self.kind.as_str())
    }
}

/// The strategy's struct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Body {
    /// Its name.
    pub name: String,
    /// The first line of its documentation.
    pub doc: String,
    /// Its fields.
    pub fields: Vec<Field>,
    /// Whether `Default` says how its settings begin.
    pub has_default: bool,
    /// The rows of the frames that it adds: structs that the cell declares with `frame!`.
    pub frames: Vec<String>,
}

/// How a strategy is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// `impl Strategy for X`.
    Exchange(Body),
    /// `impl Aggregate for X`.
    BlockRows(Body),
    /// `impl Neighbourhood for X`.
    Neighbourhood(Body),
    /// `pub const ENTRY: Entry`.
    Entry,
    /// The compiler has to say what is wrong with it.
    Unread,
}

/// Reads a cell's Rust.
///
/// # Errors
/// What is missing, and what to write.
pub fn read(code: &str) -> Result<Shape, [String; 2]> {
    let parsed = SourceFile::parse(code, Edition::Edition2024);
    if !parsed.errors().is_empty() {
        return Ok(Shape::Unread);
    }
    let items: Vec<ast::Item> = parsed.tree().items().collect();
    let is_entry = |item: &ast::Item| match item {
        ast::Item::Const(item) => item.name().is_some_and(|name| name.text() == "ENTRY"),
        _ => false,
    };
    if items.iter().any(is_entry) {
        return Ok(Shape::Entry);
    }
    for (implemented, shape) in [
        ("Strategy", Shape::Exchange as fn(Body) -> Shape),
        ("Aggregate", Shape::BlockRows),
        ("Neighbourhood", Shape::Neighbourhood),
    ] {
        if let Some(name) = implementer(&items, implemented) {
            return body(&items, &name, implemented).map(shape);
        }
    }
    Err([
        "there is no strategy in this cell".into(),
        "write `impl Strategy for X` with `fn exchange`, `impl Aggregate for X`, `impl Neighbourhood for X`, \
         or `pub const ENTRY: Entry`; %%strategy --show-trait shows them"
            .into(),
    ])
}

/// The type for which a trait is implemented.
fn implementer(items: &[ast::Item], of: &str) -> Option<String> {
    items.iter().find_map(|item| {
        let ast::Item::Impl(item) = item else {
            return None;
        };
        let named = item.trait_()?.syntax().text().to_string();
        let last = named.rsplit("::").next().unwrap_or_default().trim();
        (last == of).then(|| item.self_ty().map(|t| t.syntax().text().to_string()))?
    })
}

fn body(items: &[ast::Item], name: &str, implemented: &str) -> Result<Body, [String; 2]> {
    let found = items.iter().find_map(|item| match item {
        ast::Item::Struct(item) if item.name()?.text() == name => Some(item),
        _ => None,
    });
    let item = found.ok_or_else(|| {
        [
            format!("`impl {implemented} for {name}` needs `struct {name}` in the same cell"),
            "its fields are the strategy's settings and state; generics are not read".into(),
        ]
    })?;
    let fields = match item.kind() {
        StructKind::Unit => Vec::new(),
        StructKind::Record(list) => list
            .fields()
            .filter_map(|field| {
                Some(Field {
                    name: field.name()?.text().to_string(),
                    kind: field.ty()?.syntax().text().to_string(),
                    doc: doc(&field).join(" "),
                })
            })
            .collect(),
        StructKind::Tuple(_) => {
            return Err([
                format!("the fields of {name} have no names"),
                format!("write struct {name} {{ every: usize }}: names are keys of %%gnn"),
            ]);
        }
    };
    let derives = |item: &ast::Struct| {
        let text = item.syntax().text().to_string();
        let head = text.split("struct").next().unwrap_or_default().to_owned();
        head.contains("derive(") && head.contains("Default")
    };
    Ok(Body {
        doc: doc(item).into_iter().next().unwrap_or_default(),
        has_default: derives(item) || implementer(items, "Default").as_deref() == Some(name),
        name: name.to_owned(),
        frames: frames(items),
        fields,
    })
}

/// The structs that `frame! { Name in "name" { … } }` declares.
fn frames(items: &[ast::Item]) -> Vec<String> {
    let declared = items.iter().filter_map(|item| {
        let ast::Item::MacroCall(call) = item else {
            return None;
        };
        let path = call.path()?.syntax().text().to_string();
        let last = path.rsplit("::").next().unwrap_or_default().trim();
        (last == "frame").then(|| call.token_tree())?
    });
    let named = declared.filter_map(|tree| {
        let tokens = tree.syntax().children_with_tokens();
        let tokens = tokens.filter_map(|it| it.into_token());
        let words: Vec<String> = tokens
            .filter(|token| !token.kind().is_trivia())
            .map(|token| token.text().to_owned())
            .collect();
        let at = words.iter().position(|word| word == "in")?;
        words.get(at.checked_sub(1)?).cloned()
    });
    named.collect()
}

/// The lines of an item's documentation.
fn doc(item: &impl HasDocComments) -> Vec<String> {
    let lines = item.doc_comments().map(|comment| {
        let text = comment.text().to_owned();
        text.trim_start_matches('/').trim().to_owned()
    });
    lines.filter(|line| !line.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_state_and_documentation_are_read() {
        let code = "\n/// Reuses rows.\n#[derive(Default)]\nstruct HaloStale {\n    /// Epochs between\n    /// fetches.\n    every: usize,\n    seen: Vec<f32>,\n}\nimpl Strategy for HaloStale { }\n";
        let Ok(Shape::Exchange(body)) = read(code) else {
            panic!("{:?}", read(code))
        };
        assert_eq!(body.doc, "Reuses rows.");
        assert!(body.has_default);
        assert_eq!(body.fields[0].doc, "Epochs between fetches.");
        assert!(body.fields[0].is_setting() && !body.fields[1].is_setting());
    }

    #[test]
    fn frames_are_found() {
        let code = "\nframe! {\n    /// How far, in words.\n    #[derive(Debug)]\n    Drift in \"drift\" by layer { layer: u16 }\n}\nframe!(Other in \"other\" {});\nstruct X { }\nimpl Strategy for X { }\n";
        let Ok(Shape::Exchange(body)) = read(code) else {
            panic!("{:?}", read(code))
        };
        assert_eq!(body.frames, ["Drift", "Other"]);
    }

    #[test]
    fn the_three_ways_are_told_apart() {
        let of = |code| read(code).expect("a strategy");
        assert_eq!(of("pub const ENTRY: Entry = x();"), Shape::Entry);
        assert!(matches!(
            of("struct A { blocks: BlockRows } impl halobook::Aggregate for A {}"),
            Shape::BlockRows(_)
        ));
        assert_eq!(of("struct {"), Shape::Unread);
    }

    #[test]
    fn what_is_missing_is_said() {
        for (code, said) in [
            ("let x = 1;", "no strategy"),
            ("fn f() {}", "no strategy"),
            ("impl Strategy for X {}", "needs `struct X`"),
            ("struct X(usize); impl Strategy for X {}", "no names"),
        ] {
            match read(code) {
                Err(words) => assert!(words[0].contains(said), "{code}: {words:?}"),
                Ok(Shape::Unread) => {}
                Ok(shape) => panic!("{code}: {shape:?}"),
            }
        }
    }
}
