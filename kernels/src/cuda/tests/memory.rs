//! A device's memory: what is refused, what is counted, and what a matrix takes to the byte.

use super::*;
use crate::copy_block::{self, Corner, Picked};
use crate::cuda::ops::{self, CornerOn, PickedOn, Reduce};
use crate::cuda::{Driver, Gemm, Launch, Mark, Side, SparseNeed, SparseOn};

/// A driver that does nothing and has nothing: its addresses are never followed.
struct Bare {
    keeps: bool,
    free: Option<usize>,
}

impl Driver for Bare {
    fn name(&self) -> &str {
        "bare"
    }
    fn keeps_memory(&self) -> bool {
        self.keeps
    }
    fn free_bytes(&self) -> Result<Option<usize>, Error> {
        Ok(self.free)
    }
    fn alloc(&self, _bytes: usize) -> Result<u64, Error> {
        Ok(1 << 20)
    }
    unsafe fn free(&self, _at: u64) {}
    unsafe fn map(&self, _host: &[u8]) -> Result<u64, Error> {
        Err(Error::call("map", "there is nothing to map to"))
    }
    unsafe fn unmap(&self, _host: *const u8) {}
    unsafe fn upload(&self, _from: &[u8], _to: u64) -> Result<(), Error> {
        Ok(())
    }
    unsafe fn upload_beside(&self, _: &[u8], _: u64, _: &Mark) -> Result<[Mark; 2], Error> {
        Ok([Box::new(()), Box::new(())])
    }
    fn wait_for(&self, _mark: &Mark) -> Result<(), Error> {
        Ok(())
    }
    unsafe fn download(&self, _from: u64, to: &mut [u8]) -> Result<(), Error> {
        to.fill(0);
        Ok(())
    }
    unsafe fn copy(&self, _from: u64, _to: u64, _bytes: usize) -> Result<(), Error> {
        Ok(())
    }
    unsafe fn zero(&self, _to: u64, _bytes: usize) -> Result<(), Error> {
        Ok(())
    }
    unsafe fn launch(&self, _launch: Launch<'_>) -> Result<(), Error> {
        Ok(())
    }
    unsafe fn gemm(&self, _gemm: Gemm) -> Result<(), Error> {
        Ok(())
    }
    fn mark(&self) -> Result<Mark, Error> {
        Ok(Box::new(()))
    }
    fn between(&self, _from: &Mark, _to: &Mark) -> Result<u64, Error> {
        Ok(0)
    }
    fn is_done(&self, _mark: &Mark) -> Result<bool, Error> {
        Ok(true)
    }
    fn finish(&self) -> Result<(), Error> {
        Ok(())
    }
    fn another(&self) -> Result<Box<dyn Driver>, Error> {
        let Bare { keeps, free } = *self;
        Ok(Box::new(Bare { keeps, free }))
    }
    fn side(&self) -> Result<Box<dyn Side>, Error> {
        Err(Error::call("side", "there is none"))
    }
}

fn bare(keeps: bool, free: Option<usize>) -> Arc<Device> {
    Device::new(Box::new(Bare { keeps, free }))
}

#[test]
fn what_exceeds_a_limit_is_refused_with_numbers() {
    let device = bare(true, Some(1 << 20));
    let first = device.fresh::<f32>(100);
    assert_eq!((first.bytes(), device.used_bytes()), (512, 512));
    device.limit(2048).expect("as much is free");
    let second = device.try_fresh::<f32>(256).expect("fits");
    let refused = device
        .try_fresh::<f32>(200)
        .expect_err("only one grain is left");
    let expected = Error::Memory {
        asked: 1024,
        free: 512,
        limit: 2048,
    };
    assert_eq!(refused, expected);
    assert_eq!(
        refused.to_string(),
        "no memory for 1024 bytes: 512 of 2048 are free"
    );
    drop((first, second));
    // Idle memory of other sizes makes room, and no piece is larger than what was asked for.
    let third = device
        .try_fresh::<f32>(500)
        .expect("idle memory was let go");
    assert_eq!(
        (third.bytes(), device.used_bytes(), device.most_bytes()),
        (2048, 2048, 2048)
    );
    let more = device.limit(1 << 30).expect_err("the driver has less");
    assert!(more.to_string().contains("1048576 of 1073741824"), "{more}");
    let less = device.limit(1000).expect_err("more is in use");
    assert!(matches!(less, Error::Memory { free: 0, .. }));
}

#[test]
fn without_a_limit_idle_memory_serves_a_little_less_too() {
    let device = bare(true, None);
    drop(device.fresh::<f32>(1280));
    let again = device.fresh::<f32>(1200);
    assert_eq!((again.bytes(), device.most_bytes()), (5120, 5120));
}

proptest! {
    #![proptest_config(few())]

    #[test]
    fn a_matrix_takes_what_was_foreseen(a in any_csr(), long in 0usize..1500, d in 1usize..40, keeps: bool) {
        let device = bare(keeps, None);
        let mut a = a;
        if a.n_cols > 0 {
            // A row that is cut into pieces.
            a.indices.extend((0..long).map(|e| (e % a.n_cols) as u32));
            if let Some(w) = &mut a.weights { w.extend(std::iter::repeat_n(0.5, long)); }
            a.indptr.push(a.indices.len() as u64);
        }
        let need = SparseNeed::of(keeps, a.view());
        let room = |floats: usize| device.room(4 * floats);
        let x = device.zeros::<f32>(a.n_cols * d);
        let mut out = device.zeros::<f32>(a.rows() * d);
        let on = SparseOn::new(&device, a.view());
        ops::spmm(&on, None, 0..a.rows(), &x, d, Reduce::Sum, &mut out);
        let expected = need.room(d) + room(x.len()) + room(out.len());
        prop_assert_eq!(device.most_bytes(), expected);
        let lists: usize = 8 * (a.rows() + 1) + 4 * a.indices.len() * (1 + usize::from(a.weights.is_some()));
        prop_assert!(need.copied() >= lists && need.copied() <= lists + 12 * (long / 512 + 2) + 8);
    }

    #[test]
    fn blocks_land_where_the_reference_puts_them(
        n in 0usize..90, width in 0usize..20, extra in 0usize..5, reversed: bool, listed: bool,
    ) {
        let x = Mat::from_shape_fn((n + extra, width + extra), |(r, c)| (r * 101 + c) as f32);
        let mut list: Vec<u32> = (0..n as u32).map(|i| i + extra as u32).collect();
        if reversed { list.reverse(); }
        let far = if listed { Picked::List(&list) } else { Picked::From(extra) };
        let (near, far) = (Corner { rows: Picked::From(extra), col: extra }, Corner { rows: far, col: 0 });
        for (from, to) in [(near, far), (far, near)] {
            let mut expected = Mat::from_elem(x.dim(), -1.0);
            copy_block::naive(&x, from, (n, width), &mut expected, to);
            on_every_device(|device| {
                let rows = device.upload(&list);
                let on = |corner: Corner<'_>| CornerOn {
                    rows: match corner.rows {
                        Picked::From(first) => PickedOn::From(first),
                        Picked::List(_) => PickedOn::List(&rows, n + extra),
                    },
                    col: corner.col,
                    d: width + extra,
                };
                let mut out = up(device, &Mat::from_elem(x.dim(), -1.0));
                ops::copy_block(&up(device, &x), on(from), (n, width), &mut out, on(to));
                let got = out.download();
                assert_eq!(got, expected.as_slice().expect("row-major"));
                got
            });
        }
    }
}

#[test]
fn large_buffers_of_odd_lengths_come_back_as_they_went() {
    let len = 9_000_011;
    let bytes: Vec<u8> = (0..len).map(|i| (i * 31 % 251) as u8).collect();
    let floats: Vec<f32> = (0..1_310_727).map(|i| i as f32).collect();
    for device in devices() {
        // Twice, so that what was used is used again.
        for _ in 0..2 {
            let on = device.upload(&bytes);
            let of_floats = device.upload(&floats);
            assert!(on.download() == bytes, "{}", device.name());
            assert!(of_floats.download() == floats, "{}", device.name());
        }
        let mut beside = device.fresh::<u8>(len);
        let behind = device.mark();
        let [_, ended] = device.upload_beside(&bytes, &mut beside, &behind);
        device.wait_for(&ended);
        assert!(beside.download() == bytes, "{}, beside", device.name());
    }
}

#[test]
fn the_hosts_rows_are_read_where_they_lie_and_take_no_memory() {
    on_every_device(|device| {
        // With memory of its own, which no other test takes of.
        let device = &device.another().expect("a stream");
        let before = device.used_bytes();
        let x = Arc::new(matrix(50, 6, 3));
        let mapped = device.mapped(&x).expect("the device reads them");
        assert!(mapped.is_mapped() && device.used_bytes() == before);
        if device.name() == "host shim" {
            assert!(device.mapped(&x).is_err(), "twice");
        }
        let rows = device.upload(&[7u32, 0, 49, 7]);
        let mut out = device.zeros::<f32>(4 * 6);
        let from = CornerOn {
            rows: PickedOn::List(&rows, 50),
            col: 0,
            d: 6,
        };
        let to = CornerOn {
            rows: PickedOn::From(0),
            ..from
        };
        ops::copy_block(&mapped, from, (4, 6), &mut out, to);
        let got = out.download();
        for (k, v) in [7usize, 0, 49, 7].into_iter().enumerate() {
            assert_eq!(got[6 * k..6 * k + 6], x.row(v).to_vec()[..]);
        }
        drop(mapped);
        // They may be mapped again, and none is nothing.
        drop(device.mapped(&x).expect("after it was let go"));
        let none = device.mapped(&Arc::new(matrix(0, 6, 3)));
        assert!(none.expect("nothing to read").is_empty());
        got.into_iter().map(f32::to_bits).collect::<Vec<_>>()
    });
}

#[test]
fn another_stream_of_a_device_has_its_own_memory_and_the_same_kernels() {
    for device in devices() {
        let beside = device.another().expect("a stream");
        let there = beside.upload(&[1u32, 2, 3]);
        assert_eq!(there.download(), [1, 2, 3]);
        assert!(beside.used_bytes() > 0);
        assert_eq!(beside.name(), device.name());
    }
}

#[test]
fn what_is_kept_for_the_next_owner_is_told() {
    let device = bare(true, None);
    let x = device.fresh::<f32>(300);
    assert_eq!((device.used_bytes(), device.idle_bytes()), (1536, 0));
    drop(x);
    assert_eq!((device.used_bytes(), device.idle_bytes()), (0, 1536));
    let again = device.fresh::<f32>(300);
    assert_eq!((again.bytes(), device.idle_bytes()), (1536, 0));
}
