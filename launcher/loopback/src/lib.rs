//! `bind` for programs that are to listen to their own host only, and have no setting for it.
//!
//! Open MPI's `mpirun` listens on every interface whatever `oob_tcp_if_include` says, and so does MPICH's. A run
//! on one host loads this before them (`LD_PRELOAD`): who asks for every address gets the loopback one. A
//! connection to another host, which such a run has none of, could not be made from an address bound so.
//!
//! Linux only; elsewhere the library has nothing in it.
#![cfg(target_os = "linux")]
#![allow(unsafe_code)] // a C function; each block names the fact it relies on

use libc::{AF_INET, AF_INET6, c_int, sa_family_t, sockaddr, sockaddr_in, sockaddr_in6, socklen_t};

/// Where `bind` was asked to, with every address of a family made the loopback one.
enum Place {
    Four(sockaddr_in),
    Six(sockaddr_in6),
    AsAsked,
}

/// # Safety
/// `at` is null, or points to `len` bytes that may be read.
unsafe fn place(at: *const sockaddr, len: socklen_t) -> Place {
    let holds = |bytes: usize| !at.is_null() && len as usize >= bytes;
    if !holds(size_of::<sa_family_t>()) {
        return Place::AsAsked;
    }
    // SAFETY: the family is the first field of every address, and there are bytes for it.
    let family = c_int::from(unsafe { at.cast::<sa_family_t>().read_unaligned() });
    if family == AF_INET && holds(size_of::<sockaddr_in>()) {
        // SAFETY: an address of this family with all its bytes.
        let mut four = unsafe { at.cast::<sockaddr_in>().read_unaligned() };
        if four.sin_addr.s_addr == libc::INADDR_ANY.to_be() {
            four.sin_addr.s_addr = libc::INADDR_LOOPBACK.to_be();
            return Place::Four(four);
        }
    }
    if family == AF_INET6 && holds(size_of::<sockaddr_in6>()) {
        // SAFETY: an address of this family with all its bytes.
        let mut six = unsafe { at.cast::<sockaddr_in6>().read_unaligned() };
        if six.sin6_addr.s6_addr == [0; 16] {
            six.sin6_addr.s6_addr[15] = 1;
            return Place::Six(six);
        }
    }
    Place::AsAsked
}

/// `bind(2)`, but for the loopback address where every address is asked for.
///
/// # Safety
/// As the C function: `at` points to an address of `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn bind(socket: c_int, at: *const sockaddr, len: socklen_t) -> c_int {
    // SAFETY: the caller's promise.
    let place = unsafe { place(at, len) };
    let at = match &place {
        Place::Four(four) => std::ptr::from_ref(four).cast::<sockaddr>(),
        Place::Six(six) => std::ptr::from_ref(six).cast(),
        Place::AsAsked => at,
    };
    // SAFETY: the system call has bind's arguments and checks them; `at` is the caller's, or an address of ours
    // of the same family and at most as long. `syscall` sets errno as bind does.
    unsafe { libc::syscall(libc::SYS_bind, socket, at, len) as c_int }
}
