//! The running program. Signals reach it, and no signal ends this process before it.
//!
//! Signals are read from a descriptor and have no handler, so the program inherits which of them are
//! ignored, as `nohup` needs it. One thread both forwards signals and waits for the program, so no signal
//! is sent to a process that has gone.

use nix::libc::SI_KERNEL;
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, PosixSpawnFlags, posix_spawn};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd, siginfo};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal as Sent, WaitOptions, pidfd_open, pidfd_send_signal, waitpid,
};
use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};

/// Signals that would end this process and leave the program running.
const PASSED_ON: [Signal; 6] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];

/// Signals held back until they can be passed on to the program.
#[derive(Debug)]
pub(super) struct Signals {
    waiting: SignalFd,
    /// The signal mask before; the program inherits it.
    mask: SigSet,
}

impl Signals {
    /// Holds the signals back from now on. Call it before any other thread starts, because a signal would
    /// still reach that thread.
    pub(super) fn hold() -> io::Result<Signals> {
        let set: SigSet = PASSED_ON.into_iter().collect();
        let mask = set.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        // Fails here, before a program is started, if the kernel has no process descriptors.
        pidfd_open(rustix::process::getpid(), PidfdFlags::empty())?;
        Ok(Signals { waiting: SignalFd::with_flags(&set, flags)?, mask })
    }

    /// Runs a program to its end, and passes on signals, including those that came before it started.
    pub(super) fn run(&self, command: &Command) -> io::Result<ExitStatus> {
        let mut early = Vec::new();
        while let Some(signal) = self.waiting.read_signal()? {
            early.push(signal);
        }
        let pid = self.spawn(command)?;
        let passed_on = self.pass_on(pid, &early);
        if passed_on.is_err() {
            let _ = rustix::process::kill_process(pid, Sent::KILL);
        }
        let ended = rustix::io::retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty()))?;
        let (_, status) = ended.expect("only with NOHANG it returns before the end");
        passed_on.map(|()| ExitStatus::from_raw(status.as_raw()))
    }

    /// Starts a program. [`Command`] cannot start one with another signal mask than this thread's.
    fn spawn(&self, command: &Command) -> io::Result<Pid> {
        let path = command.get_program();
        let args = std::iter::once(path).chain(command.get_args());
        let args = args.map(|arg| CString::new(arg.to_owned().into_vec()));
        let mut env: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
        for (name, value) in command.get_envs() {
            env.remove(name);
            env.extend(value.map(|value| (name.to_owned(), value.to_owned())));
        }
        let env = env.into_iter().map(|(mut pair, value)| {
            pair.push("=");
            pair.push(value);
            CString::new(pair.into_vec())
        });
        let mut attributes = PosixSpawnAttr::init()?;
        let flags =
            PosixSpawnFlags::POSIX_SPAWN_SETSIGMASK | PosixSpawnFlags::POSIX_SPAWN_SETSIGDEF;
        attributes.set_flags(flags)?;
        attributes.set_sigmask(&self.mask)?;
        // Rust's runtime ignores SIGPIPE; the program must not.
        attributes.set_sigdefault(&SigSet::from(Signal::SIGPIPE))?;
        let pid = posix_spawn(
            path,
            &PosixSpawnFileActions::init()?,
            &attributes,
            &args.collect::<Result<Vec<_>, _>>()?,
            &env.collect::<Result<Vec<_>, _>>()?,
        )?;
        Ok(Pid::from_raw(pid.as_raw()).expect("a process has a number"))
    }

    /// Returns when the program has ended.
    fn pass_on(&self, pid: Pid, early: &[siginfo]) -> io::Result<()> {
        let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
        let send = |signal: &siginfo| {
            if let Some(signal) = Sent::from_named_raw(signal.ssi_signo as i32) {
                // The program may have ended just now.
                let _ = pidfd_send_signal(&pidfd, signal);
            }
        };
        early.iter().for_each(send);
        loop {
            let mut ready =
                [PollFd::new(&self.waiting, PollFlags::IN), PollFd::new(&pidfd, PollFlags::IN)];
            match poll(&mut ready, None) {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            }
            if !ready[1].revents().is_empty() {
                return Ok(());
            }
            while let Some(signal) = self.waiting.read_signal()? {
                if !is_a_key(&signal) {
                    send(&signal);
                }
            }
        }
    }
}

/// Whether a terminal sent the signal for a key such as Ctrl-C. The program got that signal too, and would
/// take a second one for a second key press.
fn is_a_key(signal: &siginfo) -> bool {
    let keys = [Signal::SIGINT, Signal::SIGQUIT];
    signal.ssi_code == SI_KERNEL && keys.iter().any(|key| *key as u32 == signal.ssi_signo)
}
