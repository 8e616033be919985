//! Which blocks are in memory, which leave, and which are read ahead.

use super::block::{At, Block, Key, Matrix};
use super::order::{NEVER, Order, Round, Touch, Use};
use super::scratch::{Done, Job, Scratch};
use crate::backend::Mat;
use crate::error::Result;
use crate::record::{Meter, Route, now_ns};
use std::collections::BinaryHeap;
use std::rc::Rc;

/// Blocks that may be on their way to the disk.
pub(super) const STAGING: u64 = 4;

/// What is done with blocks.
pub(super) enum Mode {
    /// Their order is noted, by somebody who computes nothing.
    Noting,
    /// It is known; what is read and written is counted, and nothing else.
    Counting,
    /// It is known, and they are there.
    Working(Scratch),
}

/// What the disk did since an epoch began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in super::super) struct Disk {
    /// Bytes read.
    pub(in super::super) read: u64,
    /// Bytes written.
    pub(in super::super) written: u64,
    /// Nanoseconds of both.
    pub(in super::super) ns: u64,
    /// Nanoseconds for which somebody waited.
    pub(in super::super) waited: u64,
}

/// A rank's blocks.
pub(super) struct Memory {
    pub(super) mode: Mode,
    meter: Rc<Meter>,
    pub(super) matrices: Vec<Matrix>,
    pub(super) blocks: Vec<Block>,
    order: Order,
    /// Bytes for blocks.
    pub(super) room: u64,
    /// Bytes of the buffers of those that are in memory, and the most there were.
    held: u64,
    pub(super) most: u64,
    /// Blocks that are being written.
    leaving: u64,
    /// Bytes of the largest block, which every buffer has: whichever block leaves, the next one has room.
    pub(super) largest: u64,
    /// Blocks that are in memory by when they are wanted; those whose time is another one are not meant.
    farthest: BinaryHeap<(u64, u32)>,
    /// How far the round was read ahead.
    ahead: usize,
    spare: Vec<Vec<f32>>,
    pub(super) disk: Disk,
}

impl Memory {
    /// Without blocks.
    pub(super) fn new(mode: Mode, meter: &Rc<Meter>, room: u64) -> Memory {
        Memory {
            mode,
            meter: Rc::clone(meter),
            matrices: Vec::new(),
            blocks: Vec::new(),
            order: Order::default(),
            room,
            held: 0,
            most: 0,
            leaving: 0,
            largest: 0,
            farthest: BinaryHeap::new(),
            ahead: 0,
            spare: Vec::new(),
            disk: Disk::default(),
        }
    }

    /// The same blocks, none of them anywhere yet, with their order known, in `room` bytes.
    pub(super) fn known(&self, mode: Mode, room: u64) -> Memory {
        let mut offset = 0;
        let again = |block: &Block| {
            let block = Block {
                offset,
                ..Block::new(block.rows(), block.d)
            };
            offset += block.bytes();
            block
        };
        let blocks: Vec<Block> = self.blocks.iter().map(again).collect();
        Memory {
            matrices: self.matrices.clone(),
            order: self.order.clone().close(blocks.len()),
            blocks,
            largest: self.largest,
            ..Memory::new(mode, &self.meter, room)
        }
    }

    pub(super) fn add(&mut self, key: Key, d: usize, starts: &Rc<[usize]>) -> usize {
        let first = self.blocks.len() as u32;
        for rows in starts.windows(2) {
            let block = Block::new(rows[1] - rows[0], d);
            self.largest = self.largest.max(block.bytes());
            self.blocks.push(block);
        }
        let starts = Rc::clone(starts);
        self.matrices.push(Matrix { key, starts, first });
        self.matrices.len() - 1
    }

    pub(super) fn begin(&mut self, round: Round) -> Result<()> {
        self.order.begin(round);
        if round == Round::Training {
            self.disk = Disk::default();
        }
        if matches!(self.mode, Mode::Noting) {
            return Ok(());
        }
        self.farthest.clear();
        for id in 0..self.blocks.len() as u32 {
            if self.blocks[id as usize].at == At::Memory {
                let next = self.order.wanted(id);
                self.is_wanted(id, next);
            }
        }
        self.ahead = 0;
        self.read_ahead()
    }

    /// A block that is in memory is wanted next at some time.
    fn is_wanted(&mut self, id: u32, next: (u64, Use)) {
        self.blocks[id as usize].next = next;
        self.farthest.push((when(next), id));
    }

    /// A block's elements, for somebody who puts them back.
    pub(super) fn take(&mut self, id: u32, how: Use) -> Result<Mat> {
        let touch = Touch { block: id, how };
        if matches!(self.mode, Mode::Noting) {
            self.order.note(touch);
            let block = &mut self.blocks[id as usize];
            if block.at != At::Memory {
                block.at = At::Memory;
                // As if it had no larger buffer.
                self.held += self.blocks[id as usize].bytes();
                self.most = self.most.max(self.held);
            }
            return Ok(self.hollow(id));
        }
        let next = self.order.step(touch);
        self.ahead = self.ahead.max(self.order.at());
        self.bring(id, how, None)?;
        self.is_wanted(id, next);
        let block = &mut self.blocks[id as usize];
        block.dirty |= how != Use::Read;
        let counting = matches!(self.mode, Mode::Counting);
        if counting {
            return Ok(self.hollow(id));
        }
        while self.blocks[id as usize].comes {
            self.wait(Route::FromDisk)?;
        }
        let data = self.blocks[id as usize].data.take();
        Ok(data.expect("it has come"))
    }

    /// A block of its shape, for somebody who computes nothing.
    fn hollow(&self, id: u32) -> Mat {
        let block = &self.blocks[id as usize];
        Mat::from_host(kernels::Mat::zeros((block.rows(), block.d)))
    }

    pub(super) fn put(&mut self, id: u32, data: Mat) -> Result<()> {
        if matches!(self.mode, Mode::Working(_)) {
            self.blocks[id as usize].data = Some(data);
        }
        self.read_ahead()
    }

    /// Sees to it that a block is in memory, or on its way there; false where everything else is wanted
    /// before `until`, so that there is no room for it.
    fn bring(&mut self, id: u32, how: Use, until: Option<u64>) -> Result<bool> {
        let block = &self.blocks[id as usize];
        let (at, bytes, offset) = (block.at, block.bytes(), block.offset);
        if at == At::Memory {
            return Ok(true);
        }
        if !self.make_room(until)? {
            return Ok(false);
        }
        self.held += self.largest;
        self.most = self.most.max(self.held);
        let reads = at == At::Disk && how != Use::Write;
        assert!(
            at != At::Lost || how == Use::Write,
            "nobody reads what was not worth writing"
        );
        if reads {
            self.disk.read += bytes;
            self.meter.copying(Route::FromDisk, bytes, || ());
        }
        let zero = at == At::Zero && how != Use::Write;
        if let Mode::Working(_) = self.mode {
            let buffer = self.buffer(id, zero)?;
            self.blocks[id as usize].comes = reads;
            match &self.mode {
                Mode::Working(scratch) if reads => scratch.ask(Job::Read {
                    block: id,
                    at: offset,
                    buffer,
                }),
                _ => self.blocks[id as usize].data = Some(self.shaped(id, buffer)),
            }
        }
        let block = &mut self.blocks[id as usize];
        block.at = At::Memory;
        // What is zero is in no file.
        block.dirty = !reads;
        Ok(true)
    }

    fn shaped(&self, id: u32, buffer: Vec<f32>) -> Mat {
        let block = &self.blocks[id as usize];
        let data = kernels::Mat::from_shape_vec((block.rows(), block.d), buffer);
        Mat::from_host(data.expect("a buffer of the block's length"))
    }

    /// A buffer for a block, of zeros if it must be.
    fn buffer(&mut self, id: u32, zero: bool) -> Result<Vec<f32>> {
        self.collect()?;
        let len = self.blocks[id as usize].len;
        let new = || Vec::with_capacity(self.largest as usize / 4);
        let mut buffer = self.spare.pop().unwrap_or_else(new);
        if zero {
            buffer.clear();
        }
        buffer.resize(len, 0.0);
        Ok(buffer)
    }

    /// Makes room for a block by those that are wanted later than `until`, the last ones first.
    fn make_room(&mut self, until: Option<u64>) -> Result<bool> {
        while self.held + self.largest > self.room {
            let Some((when_wanted, id)) = self.farthest.pop() else {
                return Ok(false);
            };
            let block = &self.blocks[id as usize];
            if block.at != At::Memory || when(block.next) != when_wanted {
                continue;
            }
            if until.is_some_and(|until| when_wanted <= until) {
                self.farthest.push((when_wanted, id));
                return Ok(false);
            }
            self.leave(id)?;
        }
        Ok(true)
    }

    /// A block leaves memory; it is written where somebody reads it later.
    fn leave(&mut self, id: u32) -> Result<()> {
        let read_later = self.blocks[id as usize].next.1 != Use::Write;
        let data = self.taken(id)?;
        let block = &mut self.blocks[id as usize];
        let (bytes, offset) = (block.bytes(), block.offset);
        let writes = block.dirty && read_later;
        block.at = match block.dirty && !read_later {
            true => At::Lost,
            false => At::Disk,
        };
        self.held -= self.largest;
        if !writes {
            self.spare.extend(data);
            return Ok(());
        }
        self.disk.written += bytes;
        self.meter.copying(Route::ToDisk, bytes, || ());
        if let Some(buffer) = data {
            while self.leaving == STAGING {
                self.wait(Route::ToDisk)?;
            }
            self.leaving += 1;
            if let Mode::Working(scratch) = &self.mode {
                scratch.ask(Job::Write { at: offset, buffer });
            }
        }
        Ok(())
    }

    /// The elements of a block that is in memory or on its way there; none when nothing is computed.
    fn taken(&mut self, id: u32) -> Result<Option<Vec<f32>>> {
        if !matches!(self.mode, Mode::Working(_)) {
            return Ok(None);
        }
        while self.blocks[id as usize].comes {
            self.wait(Route::FromDisk)?;
        }
        let data = self.blocks[id as usize].data.take();
        Ok(data.map(|data| data.into_host().into_raw_vec_and_offset().0))
    }

    pub(super) fn clear(&mut self, matrix: usize) {
        for id in self.matrices[matrix].blocks() {
            let block = &self.blocks[id as usize];
            if block.at == At::Memory {
                self.held -= match self.mode {
                    Mode::Noting => block.bytes(),
                    _ => self.largest,
                };
                // What fails here fails the next one who waits.
                let buffer = self.taken(id).unwrap_or_default();
                self.spare.extend(buffer);
            }
            self.blocks[id as usize].at = At::Zero;
        }
    }

    /// Reads what is wanted soon, as far as blocks that are wanted later make room for it.
    fn read_ahead(&mut self) -> Result<()> {
        if matches!(self.mode, Mode::Noting) {
            return Ok(());
        }
        let window = (self.room / self.largest.max(1) / 4).clamp(1, 32) as usize;
        let end = self.order.at() + window;
        while self.ahead < end {
            let Some(Touch { block, how }) = self.order.touch(self.ahead) else {
                break;
            };
            let wanted = how != Use::Write && self.blocks[block as usize].at == At::Disk;
            if wanted {
                let until = self.ahead as u64;
                if !self.bring(block, how, Some(until))? {
                    break;
                }
                self.is_wanted(block, (until, how));
            }
            self.ahead += 1;
        }
        Ok(())
    }

    /// Waits for the next thing that the disk does; the time counts as that of a route.
    fn wait(&mut self, route: Route) -> Result<()> {
        let Mode::Working(scratch) = &self.mode else {
            return Ok(());
        };
        let start = now_ns();
        let done = self.meter.copying_by_hand(route, 0, || scratch.wait());
        self.disk.waited += now_ns() - start;
        let done = done?;
        self.take_back(done);
        Ok(())
    }

    /// Takes what the disk has done by now.
    fn collect(&mut self) -> Result<()> {
        loop {
            let Mode::Working(scratch) = &self.mode else {
                return Ok(());
            };
            let Some(done) = scratch.poll()? else {
                return Ok(());
            };
            self.take_back(done);
        }
    }

    fn take_back(&mut self, done: Done) {
        self.disk.ns += done.ns;
        match done.block {
            None => {
                self.leaving -= 1;
                self.spare.push(done.buffer);
            }
            Some(id) => {
                let data = self.shaped(id, done.buffer);
                let block = &mut self.blocks[id as usize];
                (block.data, block.comes) = (Some(data), false);
            }
        }
    }
}

/// When a block is wanted by somebody who reads it; what is overwritten is not wanted.
fn when((at, how): (u64, Use)) -> u64 {
    match how {
        Use::Write => NEVER,
        _ => at,
    }
}
