//! Which cores threads are kept on.

#[cfg(target_os = "linux")]
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Some cores.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cores {
    #[cfg(target_os = "linux")]
    set: CpuSet,
}

/// Cores of the thread that trains, and of those that make batches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Split {
    pub(crate) trainer: Cores,
    pub(crate) samplers: Cores,
}

#[cfg(target_os = "linux")]
impl Split {
    /// The share of rank `rank`, `each` of the cores that this process may use, with the last `samplers` of them for
    /// threads that make batches. None where a share has no core for each.
    pub(crate) fn of(rank: usize, each: usize, samplers: usize) -> Option<Split> {
        let may = sched_getaffinity(None).ok()?;
        let all: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&c| may.is_set(c)).collect();
        let shares = all.len() / each.max(1);
        let first = rank.checked_rem(shares)? * each;
        let share = &all[first..first + each];
        let trains = each
            .checked_sub(samplers)
            .filter(|&left| left > 0 && samplers > 0)?;
        Some(Split {
            trainer: Cores::of(&share[..trains]),
            samplers: Cores::of(&share[trains..]),
        })
    }
}

#[cfg(not(target_os = "linux"))]
impl Split {
    /// None: this system does not say which cores there are.
    pub(crate) fn of(_rank: usize, _each: usize, _samplers: usize) -> Option<Split> {
        None
    }
}

impl Cores {
    #[cfg(target_os = "linux")]
    fn of(cores: &[usize]) -> Cores {
        let mut set = CpuSet::new();
        cores.iter().for_each(|&core| set.set(core));
        Cores { set }
    }

    /// Keeps the calling thread on them, where the system lets it.
    pub(crate) fn keep_here(&self) {
        #[cfg(target_os = "linux")]
        // A system that refuses leaves the thread where it likes.
        let _ = sched_setaffinity(None, &self.set);
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn shares_are_split_where_there_is_a_core_for_each() {
        let may = sched_getaffinity(None).expect("known").count() as usize;
        assert!(Split::of(0, 1, 1).is_none(), "one core is nobody's alone");
        assert!(Split::of(0, may + 1, 1).is_none() && Split::of(0, may, may).is_none());
        if may < 2 {
            return;
        }
        let split = Split::of(5, may, 1).expect("two cores");
        assert_eq!(
            (split.trainer.set.count(), split.samplers.set.count()),
            (may as u32 - 1, 1)
        );
        let kept = std::thread::spawn(move || {
            split.samplers.keep_here();
            sched_getaffinity(None).expect("known")
        });
        let kept = kept.join().expect("ends");
        let is_kept = |core: usize| kept.is_set(core) == split.samplers.set.is_set(core);
        assert!((0..CpuSet::MAX_CPU).all(is_kept));
    }
}
