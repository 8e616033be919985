//! Letters through hubs: whole and in order, whatever way they take.

use super::LABEL;
use crate::comm::Address;
use crate::spec::{RunSpec, Value};
use crate::testing::world;

/// Over the plain transport, over a link on which all of these are cut, and over one that cuts none of them.
#[test]
fn letters_arrive_whole_in_their_order_beside_collectives() {
    let lengths = [0, 1, 1023, 5000, 40_000, 2048, 0];
    for link in ["none", "100mbit,100us", "1tbit,1us"] {
        let pairs = [("strategy", "distdgl"), ("link", link)];
        let pairs = pairs.map(|(key, value)| (key, Value::Str(value.into())));
        let spec = RunSpec::from_pairs(pairs).expect("valid pairs");
        let all = world(&spec, 3, |cx, _| {
            let me = cx.rank();
            let post = cx
                .post
                .take()
                .expect("its strategy works in the background");
            let mailbox = post.open(9).expect("a mailbox");
            for to in (0..3).filter(|&to| to != me) {
                for (request, len) in (0..).zip(lengths) {
                    let to = Address {
                        rank: to,
                        mailbox: 9,
                        request,
                    };
                    let words = (0..len).map(|k| k * 3 + request).collect();
                    mailbox.send((LABEL, 0), to, words).expect("sends");
                }
            }
            let sum = cx
                .comm
                .all_reduce(LABEL, vec![me as f32])
                .expect("all take part");
            let mut got = vec![Vec::new(); 3];
            for _ in 0..2 * lengths.len() {
                let letter = mailbox.recv().expect("a letter");
                got[letter.from].push((letter.request, letter.words));
            }
            let sent = post.take_sent(0).values().map(|t| t.bytes).sum::<u64>();
            (sum, got, sent)
        });
        for (me, (sum, got, sent)) in all.into_iter().enumerate() {
            assert_eq!(sum, [3.0], "{link}");
            assert_eq!(sent, 2 * 4 * u64::from(lengths.iter().sum::<u32>()));
            for (from, letters) in got.into_iter().enumerate() {
                assert_eq!(letters.len(), if from == me { 0 } else { lengths.len() });
                for ((request, words), (k, len)) in letters.into_iter().zip((0..).zip(lengths)) {
                    assert_eq!(request, k, "{link}");
                    assert_eq!(words, (0..len).map(|w| w * 3 + k).collect::<Vec<u32>>());
                }
            }
        }
    }
}
