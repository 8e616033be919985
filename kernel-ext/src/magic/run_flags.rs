//! Flags of the magics that train, plan and cut: the keys of a run, and the flags of the command.

use gnn_core::spec::KEYS;
use launcher::flags::{CommandFlag, PAIRS, PARTITION, PLAN, Place, SWEEP, TRAIN};

use super::table::{Flag, Value, value};

/// The kernel's own flag: what the result is bound to.
const OUTPUT: Flag = value(
    "output",
    Some('o'),
    "NAME",
    Value::Free,
    "bind the result to this variable",
);

/// Flags of `%%gnn`.
pub(super) const GNN_FLAGS: &[Flag] = &with_keys::<{ with_keys_len(TRAIN) }>(TRAIN);

/// Flags of `%%sweep`.
pub(super) const SWEEP_FLAGS: &[Flag] = &with_keys::<{ with_keys_len(SWEEP) }>(SWEEP);

/// Flags of `%plan`.
pub(super) const PLAN_FLAGS: &[Flag] = &with_keys::<{ with_keys_len(PLAN) }>(PLAN);

/// Flags of `%partition`, which takes no keys.
pub(super) const PARTITION_FLAGS: &[Flag] = &{
    let all = [OUTPUT; 1 + here(PARTITION)];
    append(all, 1, PARTITION).0
};

/// How many of a command's flags a magic has, too.
const fn here(flags: &[CommandFlag]) -> usize {
    let (mut k, mut count) = (0, 0);
    while k < flags.len() {
        count += matches!(flags[k].place, Place::Both) as usize;
        k += 1;
    }
    count
}

/// Puts those flags into `all` from `at` on, and says where they end.
const fn append<const N: usize>(
    mut all: [Flag; N],
    mut at: usize,
    flags: &[CommandFlag],
) -> ([Flag; N], usize) {
    let mut k = 0;
    while k < flags.len() {
        if matches!(flags[k].place, Place::Both) {
            all[at] = Flag::of_command(&flags[k]);
            at += 1;
        }
        k += 1;
    }
    (all, at)
}

const fn with_keys_len(own: &[CommandFlag]) -> usize {
    here(own) + 1 + KEYS.len() + here(PAIRS)
}

/// A command's own flags, `output`, every key of a run, and what reads keys.
const fn with_keys<const N: usize>(own: &[CommandFlag]) -> [Flag; N] {
    let (mut all, mut at) = append([OUTPUT; N], 0, own);
    at += 1;
    let mut k = 0;
    while k < KEYS.len() {
        all[at] = Flag::of_key(&KEYS[k]);
        at += 1;
        k += 1;
    }
    append(all, at, PAIRS).0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Flags of a magic but for keys and `output`.
    fn own(flags: &[Flag]) -> Vec<&str> {
        let own = flags
            .iter()
            .filter(|flag| !flag.key && flag.long != "output");
        own.map(|flag| flag.long).collect()
    }

    #[test]
    fn keys_of_a_run_are_the_flags_of_every_magic_that_trains_or_plans() {
        let keys: Vec<&str> = KEYS.iter().map(|key| key.flag).collect();
        for (flags, commands) in [(GNN_FLAGS, TRAIN), (SWEEP_FLAGS, SWEEP), (PLAN_FLAGS, PLAN)] {
            let of_keys = flags.iter().filter(|flag| flag.key);
            assert_eq!(of_keys.map(|flag| flag.long).collect::<Vec<_>>(), keys);
            let both = commands.iter().chain(PAIRS);
            let both = both.filter(|flag| flag.place == Place::Both);
            assert_eq!(own(flags), both.map(|flag| flag.name).collect::<Vec<_>>());
            let mut names: Vec<&str> = flags.iter().map(|flag| flag.long).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), flags.len(), "a name twice");
        }
        assert!(PARTITION_FLAGS.iter().all(|flag| !flag.key));
    }
}
