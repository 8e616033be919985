//! When a block is wanted next: what an epoch and an evaluation touch, noted once.

/// How somebody uses a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Use {
    /// Looks at it.
    Read,
    /// Overwrites all of it.
    Write,
    /// Looks at it and changes it.
    Change,
}

/// What is gone through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Round {
    Training,
    Evaluation,
}

/// A block, and how it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Touch {
    pub(super) block: u32,
    pub(super) how: Use,
}

/// Never again.
pub(super) const NEVER: u64 = u64::MAX;

const NONE: u32 = u32::MAX;

/// What one round touches.
#[derive(Debug, Clone, Default)]
struct Touches {
    all: Vec<Touch>,
    /// The next touch of the same block; none for the last of the round.
    next: Vec<u32>,
    /// By block, its first touch.
    first: Vec<u32>,
}

impl Touches {
    fn close(&mut self, blocks: usize) {
        self.first = vec![NONE; blocks];
        self.next = vec![NONE; self.all.len()];
        for (at, touch) in self.all.iter().enumerate().rev() {
            let first = &mut self.first[touch.block as usize];
            self.next[at] = std::mem::replace(first, at as u32);
        }
    }

    fn first(&self, block: u32) -> Option<(u64, Use)> {
        let at = *self.first.get(block as usize)?;
        (at != NONE).then(|| (u64::from(at), self.all[at as usize].how))
    }
}

/// The order of all touches of a training. After any round comes a training again.
#[derive(Debug, Clone, Default)]
pub(super) struct Order {
    rounds: [Touches; 2],
    /// The round that is gone through, and how far.
    now: Option<(usize, usize)>,
}

impl Order {
    /// Begins a round.
    pub(super) fn begin(&mut self, round: Round) {
        self.now = Some((round as usize, 0));
    }

    /// Notes a touch of the round that was begun, in the order that is to be known.
    pub(super) fn note(&mut self, touch: Touch) {
        if let Some((round, at)) = &mut self.now {
            self.rounds[*round].all.push(touch);
            *at += 1;
        }
    }

    /// The same, with all of it known.
    pub(super) fn close(mut self, blocks: usize) -> Order {
        self.rounds.iter_mut().for_each(|r| r.close(blocks));
        self.now = None;
        self
    }

    /// Goes on by a touch. When this block is touched again, and how, in touches from the round's begin.
    ///
    /// # Panics
    /// When another one was noted: whoever trains does the same in every epoch.
    pub(super) fn step(&mut self, touch: Touch) -> (u64, Use) {
        let Some((round, at)) = &mut self.now else {
            return self.wanted(touch.block);
        };
        let (touches, here) = (&self.rounds[*round], *at);
        assert_eq!(touches.all.get(here), Some(&touch), "as it was noted");
        *at += 1;
        match touches.next[here] {
            NONE => self.behind(touch.block),
            next => (u64::from(next), touches.all[next as usize].how),
        }
    }

    /// When a block is wanted next in a round that has just begun.
    pub(super) fn wanted(&self, block: u32) -> (u64, Use) {
        let first = self
            .now
            .and_then(|(round, _)| self.rounds[round].first(block));
        first.unwrap_or_else(|| self.behind(block))
    }

    /// When it is wanted in the training that follows.
    fn behind(&self, block: u32) -> (u64, Use) {
        let len = self
            .now
            .map_or(0, |(round, _)| self.rounds[round].all.len());
        match self.rounds[0].first(block) {
            Some((at, how)) => (len as u64 + at, how),
            None => (NEVER, Use::Write),
        }
    }

    /// How far the round is.
    pub(super) fn at(&self) -> usize {
        self.now.map_or(0, |(_, at)| at)
    }

    /// The touch of this round that is so far from its begin.
    pub(super) fn touch(&self, at: usize) -> Option<Touch> {
        let (round, _) = self.now?;
        self.rounds[round].all.get(at).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(block: u32, how: Use) -> Touch {
        Touch { block, how }
    }

    #[test]
    fn the_next_use_is_in_this_round_or_the_training_that_follows() {
        let mut noted = Order::default();
        let training = [
            touch(0, Use::Read),
            touch(1, Use::Write),
            touch(0, Use::Read),
        ];
        let evaluation = [touch(1, Use::Write), touch(2, Use::Change)];
        noted.begin(Round::Training);
        training.into_iter().for_each(|t| noted.note(t));
        noted.begin(Round::Evaluation);
        evaluation.into_iter().for_each(|t| noted.note(t));
        let mut order = noted.close(3);
        order.begin(Round::Training);
        assert_eq!(order.wanted(0), (0, Use::Read));
        assert_eq!(order.wanted(2), (NEVER, Use::Write));
        assert_eq!(order.step(training[0]), (2, Use::Read));
        assert_eq!(order.step(training[1]), (3 + 1, Use::Write));
        assert_eq!((order.at(), order.touch(2)), (2, Some(training[2])));
        assert_eq!(order.step(training[2]), (3, Use::Read));
        order.begin(Round::Evaluation);
        assert_eq!(order.wanted(0), (2, Use::Read));
        assert_eq!(order.step(evaluation[0]), (2 + 1, Use::Write));
        assert_eq!(order.step(evaluation[1]), (NEVER, Use::Write));
    }

    #[test]
    #[should_panic(expected = "as it was noted")]
    fn another_touch_than_was_noted_is_a_defect() {
        let mut order = Order::default();
        order.begin(Round::Training);
        order.note(touch(0, Use::Read));
        let mut order = order.close(2);
        order.begin(Round::Training);
        order.step(touch(1, Use::Read));
    }
}
