//! A copy into a memory-mapped file that returns an error when a page is unavailable.
//!
//! A page of a mapped file can be unavailable: because of a full or failed device, a truncated
//! file, or failed memory. The kernel then sends SIGBUS, which by default ends the process.
//! [`copy`] returns an error instead. A signal handler of the process recognises the copying
//! routine by the address of the failed instruction and makes the routine return.
//!
//! Invariants:
//! 1. The handler changes only a thread that is inside the copying routine. The routine calls no
//!    function and does not move the stack pointer, so its return address stays in place. Every
//!    other SIGBUS goes to the previous handler or has its default effect.
//! 2. The handler takes no lock, allocates nothing and is never removed.
//! 3. A thread that blocks SIGBUS does not copy, because the kernel ends a process whose fault
//!    signal is blocked.
#![allow(unsafe_code)]

/// The reason why nothing, or only a part, was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// The thread blocks SIGBUS. Nothing was copied.
    Blocked,
    /// A page was unavailable.
    Fault,
    /// The memory of a page failed. Earlier writes to the page may be lost.
    Memory,
}

#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(miri)
)))]
mod inner {
    //! Platforms without the copying routine. No file is memory-mapped there.
    use super::Refused;

    pub(in super::super) fn install() -> bool {
        false
    }

    pub(in super::super) fn is_installed() -> bool {
        false
    }

    pub(in super::super) fn reset_mask_check() {}

    /// # Safety
    /// Always safe: the function touches no memory.
    pub(in super::super) unsafe fn copy(_: *mut u8, _: &[u8]) -> Result<(), Refused> {
        Err(Refused::Blocked)
    }
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
mod inner {
    use std::arch::naked_asm;
    use std::cell::Cell;
    use std::mem::{self, MaybeUninit};
    use std::ptr;
    use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

    use libc::{c_int, c_void, sigaction, siginfo_t, sigset_t, ucontext_t};

    use super::Refused;

    /// Code size of [`copy_bytes`], including padding, in bytes.
    const ROUTINE_BYTES: usize = 256;

    /// `si_code` of a page whose memory failed (`BUS_MCEERR_AR`).
    const MEMORY_FAILED: u32 = 4;

    /// Copies `len` bytes and returns 0, or the code that the handler set as the result.
    ///
    /// # Safety
    /// As for `ptr::copy_nonoverlapping`, except that pages of the target may be unavailable once
    /// [`install`] has returned true.
    #[cfg(target_arch = "x86_64")]
    #[unsafe(naked)]
    unsafe extern "C" fn copy_bytes(to: *mut u8, from: *const u8, len: usize) -> u32 {
        // The last 16 bytes are copied separately, so that the bytes before them can be copied in
        // whole steps. Long copies use `rep movsq`.
        naked_asm!(
            "2:",
            "cmp rdx, 16",
            "jb 6f",
            "movups xmm4, [rsi + rdx - 16]",
            "lea r8, [rdi + rdx - 16]",
            "cmp rdx, 1024",
            "jae 8f",
            "3:",
            "cmp rdx, 64",
            "jb 4f",
            "movups xmm0, [rsi]",
            "movups xmm1, [rsi + 16]",
            "movups xmm2, [rsi + 32]",
            "movups xmm3, [rsi + 48]",
            "movups [rdi], xmm0",
            "movups [rdi + 16], xmm1",
            "movups [rdi + 32], xmm2",
            "movups [rdi + 48], xmm3",
            "add rsi, 64",
            "add rdi, 64",
            "sub rdx, 64",
            "jmp 3b",
            "4:",
            "cmp rdi, r8",
            "jae 5f",
            "movups xmm0, [rsi]",
            "movups [rdi], xmm0",
            "add rsi, 16",
            "add rdi, 16",
            "jmp 4b",
            "5:",
            "movups [r8], xmm4",
            "xor eax, eax",
            "ret",
            "6:",
            "test rdx, rdx",
            "je 7f",
            "mov al, [rsi]",
            "mov [rdi], al",
            "inc rsi",
            "inc rdi",
            "dec rdx",
            "jmp 6b",
            "7:",
            "xor eax, eax",
            "ret",
            "8:",
            "mov rcx, rdx",
            "shr rcx, 3",
            "rep movsq",
            "jmp 5b",
            ".org 2b + {bytes}, 0xcc",
            bytes = const ROUTINE_BYTES,
        )
    }

    /// Copies `len` bytes, as the version for x86-64.
    ///
    /// # Safety
    /// As for the version for x86-64.
    #[cfg(target_arch = "aarch64")]
    #[unsafe(naked)]
    unsafe extern "C" fn copy_bytes(to: *mut u8, from: *const u8, len: usize) -> u32 {
        naked_asm!(
            "2:",
            "cmp x2, #16",
            "b.lo 6f",
            "add x3, x1, x2",
            "ldur q4, [x3, #-16]",
            "add x4, x0, x2",
            "sub x4, x4, #16",
            "3:",
            "cmp x2, #64",
            "b.lo 4f",
            "ldp q0, q1, [x1], #32",
            "ldp q2, q3, [x1], #32",
            "stp q0, q1, [x0], #32",
            "stp q2, q3, [x0], #32",
            "sub x2, x2, #64",
            "b 3b",
            "4:",
            "cmp x0, x4",
            "b.hs 5f",
            "ldr q0, [x1], #16",
            "str q0, [x0], #16",
            "b 4b",
            "5:",
            "str q4, [x4]",
            "mov w0, wzr",
            "ret",
            "6:",
            "cbz x2, 7f",
            "ldrb w3, [x1], #1",
            "strb w3, [x0], #1",
            "sub x2, x2, #1",
            "b 6b",
            "7:",
            "mov w0, wzr",
            "ret",
            ".org 2b + {bytes}",
            bytes = const ROUTINE_BYTES,
        )
    }

    /// Continuation of a thread whose copy failed: returns to the caller of `copy_bytes`, with the
    /// code that the handler stored in the result register.
    ///
    /// # Safety
    /// Must be entered only through the handler, from inside `copy_bytes`.
    #[unsafe(naked)]
    unsafe extern "C" fn give_up() {
        naked_asm!("ret")
    }

    /// Makes a thread that failed inside the copying routine return `code` from it. Returns false
    /// if the thread was not inside the routine.
    fn leave_routine(context: &mut ucontext_t, code: u32) -> bool {
        let at = |address: usize| address.wrapping_sub(copy_bytes as *const () as usize);
        let back = give_up as *const () as usize;
        #[cfg(target_arch = "x86_64")]
        {
            let registers = &mut context.uc_mcontext.gregs;
            let inside = at(registers[libc::REG_RIP as usize] as usize) < ROUTINE_BYTES;
            if inside {
                registers[libc::REG_RAX as usize] = i64::from(code);
                registers[libc::REG_RIP as usize] = back as i64;
            }
            inside
        }
        #[cfg(target_arch = "aarch64")]
        {
            let machine = &mut context.uc_mcontext;
            let inside = at(machine.pc as usize) < ROUTINE_BYTES;
            if inside {
                machine.regs[0] = u64::from(code);
                machine.pc = back as u64;
            }
            inside
        }
    }

    /// No thread has tried to install the handler yet.
    const NEVER: u8 = 0;
    /// A thread is installing the handler. The state is permanent in a child forked at that moment.
    const TRYING: u8 = 1;
    const INSTALLED: u8 = 2;
    const REFUSED: u8 = 3;
    static STATE: AtomicU8 = AtomicU8::new(NEVER);
    /// The previous action for SIGBUS. Never freed.
    static PREVIOUS: AtomicPtr<sigaction> = AtomicPtr::new(ptr::null_mut());

    thread_local! {
        /// Whether a check found that this thread does not block SIGBUS.
        static OPEN: Cell<bool> = const { Cell::new(false) };
    }

    extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
        // SAFETY: the kernel passes a valid description, which nothing else uses during the
        // handler.
        let code = unsafe { info.as_ref() }.map_or(0, |info| info.si_code);
        // SAFETY: a handler with SA_SIGINFO gets the context of its thread, which only the handler
        // may change.
        let context_of_thread = unsafe { context.cast::<ucontext_t>().as_mut() };
        // A positive code comes from the kernel. A signal from a process does not concern a page.
        if code > 0
            && let Some(thread) = context_of_thread
            && leave_routine(thread, code as u32)
        {
            return;
        }
        pass_on(signal, info, context, code);
    }

    /// Passes the signal to the previous action.
    fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void, code: c_int) {
        // SAFETY: the pointer is null or points to an initialized value that is never freed.
        let previous = unsafe { PREVIOUS.load(Ordering::Acquire).as_ref() };
        let (handler, flags) =
            previous.map_or((libc::SIG_DFL, 0), |p| (p.sa_sigaction, p.sa_flags));
        match handler {
            libc::SIG_IGN if code <= 0 => {}
            // An ignored fault would recur forever. The kernel does not ignore a fault either.
            libc::SIG_DFL | libc::SIG_IGN => {
                set_default(signal);
                if code <= 0 {
                    // SAFETY: allowed in a handler. The signal is delivered when this handler
                    // returns.
                    unsafe { libc::raise(signal) };
                }
            }
            _ => {
                if flags & libc::SA_RESETHAND != 0 {
                    set_default(signal);
                }
                if flags & libc::SA_SIGINFO != 0 {
                    type Full = extern "C" fn(c_int, *mut siginfo_t, *mut c_void);
                    // SAFETY: SA_SIGINFO guarantees that the installed handler has this type.
                    let call = unsafe { mem::transmute::<usize, Full>(handler) };
                    call(signal, info, context);
                } else {
                    // SAFETY: without SA_SIGINFO, the installed handler has this type.
                    let call = unsafe { mem::transmute::<usize, extern "C" fn(c_int)>(handler) };
                    call(signal);
                }
            }
        }
    }

    /// Restores the default action, so that the repeated fault or signal has its default effect.
    fn set_default(signal: c_int) {
        // SAFETY: zeros are a valid `sigaction`: the default action, no flags, an empty mask.
        let default: sigaction = unsafe { mem::zeroed() };
        // SAFETY: the argument is initialized, and the call is allowed in a handler.
        unsafe { sigaction(signal, &default, ptr::null_mut()) };
    }

    /// Returns the current action for SIGBUS.
    fn current() -> Option<sigaction> {
        let mut now = MaybeUninit::<sigaction>::zeroed();
        // SAFETY: the call only reads the action, into a local buffer.
        let succeeded = unsafe { sigaction(libc::SIGBUS, ptr::null(), now.as_mut_ptr()) } == 0;
        // SAFETY: zeros are a valid `sigaction`, and the call writes only a valid one.
        succeeded.then(|| unsafe { now.assume_init() })
    }

    fn is_own_handler(action: &sigaction) -> bool {
        action.sa_sigaction == on_fault as *const () as usize
    }

    /// Installs the handler, once per process. Returns whether the handler is in place. False if
    /// the installation failed, or if another handler has replaced it. A replaced handler is not
    /// installed again: the two handlers would pass an unknown signal to each other forever.
    pub(in super::super) fn install() -> bool {
        let order = Ordering::Acquire;
        match STATE.compare_exchange(NEVER, TRYING, order, order) {
            Ok(_) => {
                let done = put_in_place();
                STATE.store(if done { INSTALLED } else { REFUSED }, Ordering::Release);
                done
            }
            Err(INSTALLED) => is_installed(),
            Err(_) => false,
        }
    }

    fn put_in_place() -> bool {
        let Some(before) = current() else { return false };
        let mut action = before;
        action.sa_sigaction = on_fault as *const () as usize;
        // The previous handler must run as before: on the same stack and with the same mask.
        let inherited = match before.sa_sigaction {
            libc::SIG_DFL | libc::SIG_IGN => libc::SA_ONSTACK | libc::SA_RESTART,
            _ => before.sa_flags & !libc::SA_RESETHAND,
        };
        action.sa_flags = inherited | libc::SA_SIGINFO;
        // The previous action must be stored before the handler can be called.
        PREVIOUS.store(Box::into_raw(Box::new(before)), Ordering::Release);
        let mut replaced = MaybeUninit::<sigaction>::zeroed();
        // SAFETY: the handler has the type that SA_SIGINFO requires. Its code stays loaded: it is
        // in an executable or in a library that is never unloaded (`bindings/c/build.rs`).
        let done = unsafe { sigaction(libc::SIGBUS, &action, replaced.as_mut_ptr()) } == 0;
        // SAFETY: as in `current`.
        let replaced = unsafe { replaced.assume_init() };
        if done && replaced.sa_sigaction != before.sa_sigaction {
            // Another thread changed the action meanwhile. The first box stays allocated, because a
            // handler may be reading it.
            PREVIOUS.store(Box::into_raw(Box::new(replaced)), Ordering::Release);
        }
        done
    }

    /// Returns whether the handler is in place.
    pub(in super::super) fn is_installed() -> bool {
        current().is_some_and(|now| is_own_handler(&now))
    }

    /// Makes the next copy of this thread check again whether the thread blocks SIGBUS.
    pub(in super::super) fn reset_mask_check() {
        OPEN.set(false);
    }

    #[cold]
    fn is_blocked() -> bool {
        let mut mask = MaybeUninit::<sigset_t>::zeroed();
        // SAFETY: the call only reads the mask, into a local buffer.
        let succeeded =
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), mask.as_mut_ptr()) } == 0;
        // SAFETY: the set was filled by the call, or is all zeros, which is an empty set.
        let blocked = unsafe { libc::sigismember(mask.as_ptr(), libc::SIGBUS) } != 0;
        OPEN.set(succeeded && !blocked);
        blocked || !succeeded
    }

    /// Copies `bytes` to `to`. After an error, any part of them may have been copied.
    ///
    /// # Safety
    /// [`install`] must have returned true. `to` must be the start of at least `bytes.len()` bytes
    /// of a mapped file, which nothing else borrows or writes meanwhile. Their pages may be
    /// unavailable.
    #[inline]
    pub(in super::super) unsafe fn copy(to: *mut u8, bytes: &[u8]) -> Result<(), Refused> {
        if !OPEN.get() && is_blocked() {
            return Err(Refused::Blocked);
        }
        // SAFETY: the caller guarantees that the target is mapped and exclusive. An unavailable
        // page ends the routine early. The source is a borrowed slice.
        match unsafe { copy_bytes(to, bytes.as_ptr(), bytes.len()) } {
            0 => Ok(()),
            MEMORY_FAILED => Err(Refused::Memory),
            _ => Err(Refused::Fault),
        }
    }
}

pub(super) use inner::{copy, install, is_installed, reset_mask_check};
