//! What METIS balances, and what it does when a cut does not fit.

use super::*;

#[test]
fn metis_finds_planted_communities_and_balances() {
    let d = crate::load::load("sbm:nodes=4000,classes=4,degree=20,homophily=0.95", 3)
        .expect("built in");
    let full = d.graph.propagation(Propagation::Mean);
    let masks = Masks {
        train: &d.train,
        val: &d.val,
        test: &d.test,
    };
    let cut = |name: &str| {
        let owner = ask(name, &d.graph, 4, 1).assign().expect("cut");
        facts(full.csr(), &owner, 4, masks, 0)
    };
    let (metis, hash) = (cut("metis").cut_share(), cut("hash").cut_share());
    assert!(metis < 0.15 && hash > 0.7, "{metis} {hash}");
    for f in &cut("metis").parts {
        assert!((900..1100).contains(&f.nodes), "{} vertices", f.nodes);
    }
}

#[test]
fn several_balances_hold_at_once_where_work_alone_does_not() {
    // Training vertices all in one corner of a graph whose classes are its communities.
    let mut d =
        crate::load::load("sbm:nodes=4000,classes=4,degree=12,homophily=0.9", 3).expect("built in");
    let (train, first) = (d.labels.iter().map(|&l| l == 0), d.labels.clone());
    d.train = train.collect();
    d.node_types = Some(first.iter().map(|&l| u16::from(l == 1)).collect());
    let balance = |method: &str| {
        let m = Method::parse(method).expect("known");
        let request = Request::of(m, &d, 4, 1);
        let owner = request.assign().expect("cuts");
        let masks = Masks {
            train: &d.train,
            val: &d.val,
            test: &d.test,
        };
        let f = facts(d.graph.csr(), &owner, 4, masks, 0);
        let typed = |t: u16| {
            let is = |v: &usize| d.node_types.as_ref().expect("just set")[*v] == t;
            let of = |p: u32| (0..4000).filter(is).filter(|&v| owner[v] == p).count();
            let all = (0..4000).filter(is).count();
            (0..4).map(of).max().expect("four") as f64 * 4.0 / all as f64
        };
        [
            f.balance(|f| f.nodes),
            f.balance(|f| f.edges),
            f.balance(|f| f.train_nodes),
            typed(1),
        ]
    };
    let plain = balance("metis");
    assert!(plain[2] > 2.0 && plain[3] > 2.0, "{plain:?}");
    let [nodes, edges, train, _] = balance("metis:balance=train+edges");
    assert!(
        nodes < 1.08 && edges < 1.08 && train < 1.08,
        "{nodes} {edges} {train}"
    );
    let [nodes, _, _, types] = balance("metis:balance=types");
    assert!(nodes < 1.08 && types < 1.08, "{nodes} {types}");
}

/// Every word by itself and all of them at once, on graphs of three kinds: within the bound that the
/// method states, or named.
#[test]
fn each_balance_is_within_its_bound_or_named() {
    let words = &balance::BALANCES[1..];
    let all = words.join("+");
    let mut kept = 0;
    for name in [
        "sbm:nodes=3000,degree=10,feat=1",
        "rmat:scale=11,edge-factor=6,feat=1",
        "like:physics,scale=0.05",
        "karate",
    ] {
        let mut d = crate::load::load(name, 2).expect("built in");
        let n = d.n();
        d.node_types = Some((0..n).map(|v| (v % 7 == 0) as u16).collect());
        let simple = undirected::undirected(&d.graph).expect("valid");
        let degree = |v: usize| simple.in_degree(v) as f64;
        let is = |mask: &[bool]| mask.iter().map(|&m| f64::from(u8::from(m))).collect();
        let of = |t: u16, by: &dyn Fn(usize) -> f64| -> Vec<f64> {
            let types = d.node_types.as_ref().expect("just set");
            (0..n)
                .map(|v| if types[v] == t { by(v) } else { 0.0 })
                .collect()
        };
        let weights = |word: &str| -> Vec<(String, Vec<f64>)> {
            let named = |w: Vec<f64>| vec![(word.to_owned(), w)];
            let typed = |by: &dyn Fn(usize) -> f64| {
                [0, 1].map(|t| (format!("{word} {t}"), of(t, by))).to_vec()
            };
            match word {
                "vertices" => named(vec![1.0; n]),
                "edges" => named((0..n).map(degree).collect()),
                "train" => named(is(&d.train)),
                "val" => named(is(&d.val)),
                "test" => named(is(&d.test)),
                "types" => typed(&|_| 1.0),
                _ => typed(&degree),
            }
        };
        for wish in words.iter().copied().chain([all.as_str()]) {
            let method = Method::parse(&format!("metis:balance={wish}")).expect("known");
            let cut = Request::of(method, &d, 3, 1).cut(None).expect("cuts");
            for (balance, weight) in wish.split('+').flat_map(&weights) {
                // The types share all vertices, so these are balanced through them.
                if balance == "vertices" && wish.contains("types") {
                    continue;
                }
                let mut load = [0.0; 3];
                (0..n).for_each(|v| load[cut.owner[v] as usize] += weight[v]);
                let most = load.iter().copied().fold(0.0, f64::max);
                let heaviest = weight.iter().copied().fold(0.0, f64::max);
                let within = most <= 1.03 * load.iter().sum::<f64>() / 3.0 + heaviest + 1e-6;
                let start = format!("balance of {balance} is missed");
                let named = cut.missed.iter().any(|m| m.starts_with(&start));
                assert_eq!(
                    within, !named,
                    "{name} {wish}: {balance} {load:?} {:?}",
                    cut.missed
                );
                kept += usize::from(within);
            }
        }
    }
    // Some graphs cannot keep all; most do.
    assert!(kept >= 50, "{kept} balances are within their bounds");
}

#[test]
fn limits_choose_thinning_or_refuse_with_numbers() {
    let d = crate::load::load("rmat:scale=12,edge-factor=16", 3).expect("built in");
    let ask = |text: &str, bytes: Option<u64>, ms: Option<f64>| {
        let limits = Limits { bytes, ms };
        let method = Method::parse(text).expect("known");
        Request::of(method, &d, 4, 1).within(limits).cut(None)
    };
    let free = ask("metis", None, None).expect("no limit");
    assert_eq!(free.method, "metis");
    assert_eq!(
        free.owner,
        ask("metis:thin=never", None, None).expect("the same").owner
    );
    let coarse = ask("metis", Some(free.need.bytes - 1), None).expect("thins");
    assert_eq!(coarse.method, "metis:thin=coarse");
    let input = ask("metis", Some(coarse.need.bytes - 1), None).expect("thins more");
    assert_eq!(input.method, "metis:thin=input");
    let e = ask("metis", None, Some(1e-3)).expect_err("a microsecond");
    assert!(e.to_string().contains("s may be used"), "{e}");
    let e = ask("metis:thin=never", Some(free.need.bytes - 1), None).expect_err("too little");
    let (says, help) = (e.to_string(), e.help());
    assert!(says.contains("MB of memory beside the data set"), "{says}");
    assert!(says.contains("4096 vertices"), "{says}");
    assert!(help.starts_with("metis:thin=coarse needs"), "{help}");
    let e = ask("metis", Some(10), None).expect_err("nothing fits");
    assert!(e.help().contains("more memory"), "{}", e.help());
}
