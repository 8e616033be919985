//! What several ranks printed, once where it is the same.

/// The lines of every rank as one text: those at the beginning and at the end that all ranks have in common
/// once; the others by rank, ranks that printed the same together.
pub fn grouped(printed: &[(u32, String)]) -> String {
    let lines: Vec<Vec<&str>> = printed.iter().map(|(_, t)| t.lines().collect()).collect();
    if let [(_, text)] = printed {
        return text.clone();
    }
    let Some(shortest) = lines.iter().map(Vec::len).min() else {
        return String::new();
    };
    let same = |at: &dyn Fn(&Vec<&str>) -> String| {
        let first = at(&lines[0]);
        lines.iter().all(|of| at(of) == first)
    };
    let head = (0..shortest)
        .take_while(|&i| same(&|of| of[i].to_owned()))
        .count();
    let tail = (0..shortest - head)
        .take_while(|&i| same(&|of| of[of.len() - 1 - i].to_owned()))
        .count();
    let mut text = String::new();
    let mut add = |who: &str, line: &str| text.push_str(&format!("[{who}] {line}\n"));
    let all = format!("{} ranks", printed.len());
    for line in &lines[0][..head] {
        add(&all, line);
    }
    let mut groups: Vec<(Vec<u32>, &[&str])> = Vec::new();
    for ((rank, _), of) in printed.iter().zip(&lines) {
        let own = &of[head..of.len() - tail];
        match groups.iter_mut().find(|(_, lines)| *lines == own) {
            Some((ranks, _)) => ranks.push(*rank),
            None => groups.push((vec![*rank], own)),
        }
    }
    for (ranks, own) in &groups {
        for line in *own {
            add(&named(ranks), line);
        }
    }
    for line in &lines[0][lines[0].len() - tail..] {
        add(&all, line);
    }
    text
}

/// `rank 2`, `ranks 0 and 2`, `ranks 0, 2 and 3`.
pub fn named(ranks: &[u32]) -> String {
    match ranks {
        [] => "no rank".to_owned(),
        [one] => format!("rank {one}"),
        [most @ .., last] => {
            let most: Vec<String> = most.iter().map(u32::to_string).collect();
            format!("ranks {} and {last}", most.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_the_same_is_said_once() {
        let of = |texts: &[&str]| -> Vec<(u32, String)> {
            (0..).zip(texts.iter().map(|t| (*t).to_owned())).collect()
        };
        assert_eq!(grouped(&of(&["hello\n", "hello\n"])), "[2 ranks] hello\n");
        assert_eq!(
            grouped(&of(&["a\nme 0\nz\n", "a\nme 1\nz\n", "a\nme 0\nz\n"])),
            "[3 ranks] a\n[ranks 0 and 2] me 0\n[rank 1] me 1\n[3 ranks] z\n"
        );
        assert_eq!(grouped(&of(&["x\n", ""])), "[rank 0] x\n");
        assert_eq!(grouped(&of(&["alone\n"])), "alone\n");
        assert_eq!(grouped(&of(&["", ""])), "");
    }

    #[test]
    fn ranks_are_named() {
        assert_eq!(named(&[1]), "rank 1");
        assert_eq!(named(&[0, 2]), "ranks 0 and 2");
        assert_eq!(named(&[0, 2, 3]), "ranks 0, 2 and 3");
    }
}
