//! Groups: communicators of some of the ranks.

use super::communicator::Communicator;
use super::tags::MOST_GROUPS;
use crate::error::{Error, Result};

impl Communicator {
    /// The communicator of the ranks `members` of this one, in that order: member `k` is its rank `k`.
    /// This rank names a group that it is in, and every member the same; ranks that name different groups
    /// have one each. Collective over this communicator, and the only moment at which the group is in step
    /// with it: from then on its operations are ordered among its members alone, and may be in flight
    /// beside those of any other communicator.
    ///
    /// Bytes, messages and waits are counted under the ranks' names in the world, as all are.
    ///
    /// # Errors
    /// [`Error::Comm`] when a rank is not in its own group, members do not agree, a peer is gone, or
    /// groups are too many (15).
    pub fn group(&mut self, members: &[usize]) -> Result<Communicator> {
        let own = self.members().some(members);
        let groups = self.wire().groups;
        // Who is wrong takes part, so that nobody waits for it.
        let named = own.as_ref().map_or(0, |_| digest(members));
        let all = self.agree(&[f64::from(groups), f64::from(named)])?;
        let Some(own) = own else {
            return Err(wrong(
                None,
                format!(
                    "ranks {members:?} are not a group of rank {} among {}",
                    self.rank(),
                    self.size()
                ),
            ));
        };
        let other = members.iter().find(|&&r| all[r][1] != f64::from(named));
        if let Some(&rank) = other {
            let reason = format!("rank {rank} does not name the group {members:?}");
            return Err(wrong(Some(self.world_rank(rank)), reason));
        }
        // One number for all of this call: groups without a common rank need none of their own.
        let number = all
            .iter()
            .fold(0, |most, r| r[0].max(f64::from(most)) as u16)
            + 1;
        if number > MOST_GROUPS {
            return Err(wrong(
                None,
                format!("no more than {MOST_GROUPS} groups can be made"),
            ));
        }
        self.wire().groups = number;
        let lane = self.lane().map(|lane| lane.group(members)).transpose()?;
        Ok(Communicator::over(self.shared_wire(), own, number).with_lane(lane))
    }
}

fn wrong(peer: Option<usize>, reason: String) -> Error {
    Error::Comm {
        op: "group".into(),
        peer: peer.map(|p| p as u32),
        reason,
    }
}

/// 32 bits of a list (FNV-1a), none of them for none.
fn digest(members: &[usize]) -> u32 {
    let hash = members.iter().fold(0x811c_9dc5u32, |h, &r| {
        (h ^ r as u32).wrapping_mul(0x0100_0193)
    });
    hash.max(1)
}
