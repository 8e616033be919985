//! A transport whose messages arrive when the link's model says so.
//!
//! Ahead of every message its sender posts a notice on a tag of its own: when it was handed over,
//! when it left, its tag and length. So a receiver knows of all that comes through its port, also of
//! messages it has not asked for yet. Notices are no payload and are not counted.

use super::Link;
use super::ports::{Inbound, Notice, Outbound, Parcel};
use crate::comm::{Handle, NOTICE_TAG, Progress, Transport, WayOut, Words};
use crate::error::{Error, Result};
use crate::record::now_ns;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::time::Duration;

const NOTICE_WORDS: usize = 7;

impl Notice {
    fn words(self) -> Words {
        let split = |x: u64| [x as u32, (x >> 32) as u32];
        let [s, d, b] = [self.sent_ns, self.departs_ns, self.bytes].map(split);
        vec![s[0], s[1], d[0], d[1], b[0], b[1], u32::from(self.tag)]
    }

    fn of(words: &[u32]) -> Notice {
        let join = |k: usize| u64::from(words[k]) | u64::from(words[k + 1]) << 32;
        Notice {
            sent_ns: join(0),
            departs_ns: join(2),
            bytes: join(4),
            tag: words[6] as u16,
        }
    }
}

/// A posted receive: which message it is, once that was announced.
struct Claim {
    from: usize,
    parcel: Option<Parcel>,
}

/// A transport behind a modelled link.
pub(crate) struct Linked {
    inner: Box<dyn Transport>,
    out: Outbound,
    inbound: Inbound,
    /// The receive of each peer's next notice.
    notices: Vec<Option<Handle>>,
    claims: HashMap<Handle, Claim>,
    /// Announced, and not asked for yet.
    unclaimed: HashMap<(usize, u16), VecDeque<Parcel>>,
    /// Asked for, and not announced yet.
    waiting: HashMap<(usize, u16), VecDeque<Handle>>,
}

impl Linked {
    pub(crate) fn new(inner: Box<dyn Transport>, link: Link) -> Linked {
        let size = inner.size();
        Linked {
            inner,
            out: Outbound::new(link),
            inbound: Inbound::new(link),
            notices: vec![None; size],
            claims: HashMap::new(),
            unclaimed: HashMap::new(),
            waiting: HashMap::new(),
        }
    }

    /// Reads every notice that is here. A peer that failed hides no other's notices; what it left
    /// behind is read, and the failure is told.
    fn read_notices(&mut self) -> Result<()> {
        let me = self.inner.rank();
        let mut failed = Ok(());
        for peer in (0..self.notices.len()).filter(|&p| p != me) {
            let read = self.read_from(peer);
            failed = failed.and(read);
        }
        self.inbound.admit(now_ns());
        failed
    }

    fn read_from(&mut self, peer: usize) -> Result<()> {
        loop {
            let handle = match self.notices[peer] {
                Some(handle) => handle,
                None => self.inner.post_recv(peer, NOTICE_TAG, NOTICE_WORDS)?,
            };
            self.notices[peer] = Some(handle);
            if self.inner.poll(handle)? != Progress::Done {
                return Ok(());
            }
            self.notices[peer] = None;
            let notice = Notice::of(&self.inner.take(handle)?);
            self.announced(peer, notice);
        }
    }

    fn announced(&mut self, peer: usize, notice: Notice) {
        let parcel = self.inbound.announce(peer, notice);
        let lane = (peer, notice.tag);
        let asked = self.waiting.get_mut(&lane).and_then(VecDeque::pop_front);
        let claim = asked.and_then(|handle| self.claims.get_mut(&handle));
        match claim {
            Some(claim) => claim.parcel = Some(parcel),
            None => self.unclaimed.entry(lane).or_default().push_back(parcel),
        }
        self.waiting.retain(|_, handles| !handles.is_empty());
    }

    /// When the message of a receive was handed over and arrived; none before it was announced.
    fn times(&self, handle: Handle) -> Option<(u64, Option<u64>)> {
        let parcel = self.claims.get(&handle)?.parcel?;
        self.inbound.times(parcel)
    }
}

impl Transport for Linked {
    fn rank(&self) -> usize {
        self.inner.rank()
    }

    fn size(&self) -> usize {
        self.inner.size()
    }

    fn post_send(&mut self, to: usize, tag: u16, words: Words) -> Result<()> {
        self.post_on(to, tag, words, now_ns())
    }

    fn post_on(&mut self, to: usize, tag: u16, words: Words, sent_ns: u64) -> Result<()> {
        let bytes = 4 * words.len() as u64;
        let notice = Notice {
            sent_ns,
            departs_ns: self.out.departs(sent_ns, bytes),
            tag,
            bytes,
        };
        self.inner.post_send(to, NOTICE_TAG, notice.words())?;
        self.inner.post_send(to, tag, words)
    }

    fn post_recv(&mut self, from: usize, tag: u16, len: usize) -> Result<Handle> {
        let handle = self.inner.post_recv(from, tag, len)?;
        let lane = (from, tag);
        let parcel = self.unclaimed.get_mut(&lane).and_then(VecDeque::pop_front);
        self.unclaimed.retain(|_, parcels| !parcels.is_empty());
        if parcel.is_none() {
            self.waiting.entry(lane).or_default().push_back(handle);
        }
        self.claims.insert(handle, Claim { from, parcel });
        Ok(handle)
    }

    fn poll(&mut self, handle: Handle) -> Result<Progress> {
        let read = self.read_notices();
        let Some((_, arrives)) = self.times(handle) else {
            // A peer that failed matters only to who waits for what it did not send.
            read?;
            return Ok(Progress::Absent);
        };
        let there = self.inner.poll(handle)? == Progress::Done;
        let due = arrives.is_some_and(|at| at <= now_ns());
        Ok(if there && due {
            Progress::Done
        } else {
            Progress::Moving
        })
    }

    fn way_out(&self) -> Option<WayOut> {
        Some(self.out.way_out())
    }

    fn travelled(&self, handle: Handle) -> Option<Range<u64>> {
        let (sent, arrives) = self.times(handle)?;
        Some(sent..arrives.unwrap_or(u64::MAX))
    }

    fn wait(&mut self, at_most: Duration) -> bool {
        self.inner.wait(at_most)
    }

    fn take(&mut self, handle: Handle) -> Result<Words> {
        if let Some((_, arrives)) = self.times(handle)
            && arrives.is_none_or(|at| at > now_ns())
        {
            return Err(Error::Comm {
                op: "take".into(),
                peer: self.claims.get(&handle).map(|c| c.from as u32),
                reason: "the message has not arrived".into(),
            });
        }
        let words = self.inner.take(handle)?;
        if let Some(parcel) = self.claims.remove(&handle).and_then(|c| c.parcel) {
            self.inbound.taken(parcel);
        }
        Ok(words)
    }

    fn forget(&mut self, handle: Handle) {
        self.inner.forget(handle);
    }

    fn drain(&mut self) -> Result<()> {
        self.inner.drain()?;
        let left = self.out.way_out().free_ns.saturating_sub(now_ns());
        std::thread::sleep(std::time::Duration::from_nanos(left));
        Ok(())
    }

    fn abort(&mut self, code: i32) {
        self.inner.abort(code);
    }
}

impl Drop for Linked {
    /// Notices that nobody will send are not waited for.
    fn drop(&mut self) {
        for handle in self.notices.iter_mut().filter_map(Option::take) {
            self.inner.forget(handle);
        }
    }
}

/// Refuses a world whose ranks have no clock in common. Collective, before anything else is sent.
///
/// # Errors
/// [`Error::Unsupported`] when ranks run on several hosts.
pub(crate) fn same_clock(transport: &mut dyn Transport) -> Result<()> {
    let (me, mine) = (transport.rank(), clock_id());
    let peers: Vec<usize> = (0..transport.size()).filter(|&p| p != me).collect();
    for &peer in &peers {
        transport.post_send(peer, NOTICE_TAG, mine.clone())?;
    }
    for &peer in &peers {
        let handle = transport.post_recv(peer, NOTICE_TAG, mine.len())?;
        while transport.poll(handle)? != Progress::Done {
            std::thread::yield_now();
        }
        if transport.take(handle)? != mine {
            return Err(Error::Unsupported {
                what: format!("link with ranks {me} and {peer} on two hosts"),
                reason: "the model needs one clock, and hosts have their own".into(),
                help: "run all ranks on one host, or leave link out: the network is real".into(),
            });
        }
    }
    Ok(())
}

/// Names this boot of this host: its monotonic clock is the same for all of its processes.
pub(crate) fn clock_id() -> Words {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    let name = boot.unwrap_or_else(|_| crate::record::host_name());
    // FNV-1a, 64 bits: equal names have equal numbers in every process and version.
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| {
        (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
    });
    vec![hash as u32, (hash >> 32) as u32]
}
