//! Seccomp: which system calls a process may make (seccomp(2)).
//!
//! Two filters. The first kills the process for what only an intruder would do: starting programs,
//! tracing others, loading modules. The second is a list of what is needed; all else fails with
//! EPERM. Killing for these too would stop mail whenever a new C library uses a new call for an old
//! purpose; it tries another way when it gets EPERM.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// What only an intruder would do.
const KILLED: &[i64] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_open_by_handle_at,
    libc::SYS_io_uring_setup,
];

/// What both processes need: files, memory, threads, time.
const NEEDED: &[i64] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_preadv2,
    libc::SYS_pwritev2,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_lseek,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_msync,
    libc::SYS_mlock,
    libc::SYS_munlock,
    libc::SYS_mincore,
    // Files in memory go to malware engines as descriptors; nothing here can start one.
    libc::SYS_memfd_create,
    libc::SYS_brk,
    libc::SYS_get_mempolicy,
    libc::SYS_mbind,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sigaltstack,
    libc::SYS_ioctl,
    libc::SYS_pipe2,
    libc::SYS_pselect6,
    libc::SYS_ppoll,
    libc::SYS_eventfd2,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_getpriority,
    libc::SYS_setpriority,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_times,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_set_robust_list,
    libc::SYS_get_robust_list,
    libc::SYS_rseq,
    libc::SYS_set_tid_address,
    libc::SYS_futex,
    libc::SYS_membarrier,
    libc::SYS_prctl,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getgroups,
    libc::SYS_umask,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_getrlimit,
    libc::SYS_setrlimit,
    libc::SYS_prlimit64,
    libc::SYS_getrusage,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    libc::SYS_getcwd,
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_truncate,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_sync_file_range,
    libc::SYS_syncfs,
    libc::SYS_flock,
    libc::SYS_fcntl,
    libc::SYS_fadvise64,
    libc::SYS_utimensat,
    libc::SYS_copy_file_range,
    libc::SYS_sendfile,
    libc::SYS_getrandom,
    libc::SYS_getcpu,
    libc::SYS_tgkill,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_restart_syscall,
    // A connected socket's reads and writes.
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_shutdown,
    libc::SYS_setsockopt,
    libc::SYS_getsockopt,
];

/// What the node needs beside that: the network, waiting for many sockets, giving root away.
const OF_THE_NODE: &[i64] = &[
    libc::SYS_socketpair,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvmmsg,
    libc::SYS_splice,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_signalfd4,
    libc::SYS_kill,
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setgroups,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
];

/// The same calls under the names that only x86-64 has.
#[cfg(target_arch = "x86_64")]
const OLD_NAMES: &[i64] = &[
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_pipe,
    libc::SYS_select,
    libc::SYS_poll,
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
    libc::SYS_eventfd,
    libc::SYS_time,
    libc::SYS_dup2,
    libc::SYS_arch_prctl,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_link,
    libc::SYS_readlink,
    libc::SYS_getdents,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_NAMES: &[i64] = &[];

/// Calls that change the mode of a file, and which argument the mode is.
#[cfg(target_arch = "x86_64")]
const MODES: &[(i64, u8)] = &[(libc::SYS_chmod, 1), (libc::SYS_fchmod, 1), (libc::SYS_fchmodat, 2)];
#[cfg(not(target_arch = "x86_64"))]
const MODES: &[(i64, u8)] = &[(libc::SYS_fchmod, 1), (libc::SYS_fchmodat, 2)];
/// Bits of group and others: nothing that a node has is opened to them by a change of mode.
/// (Landlock does not govern modes, so that files that the node cannot read could be opened for
/// others.)
const OTHERS: u64 = 0o077;

/// Families of sockets that a node opens.
const FAMILIES: [i32; 3] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6];

/// What a process needs that computes on bytes which it was given: memory, time, its own ends. It
/// opens nothing, starts nothing and sees nothing of the system.
const OF_A_WORKER: &[i64] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_recvfrom,
    libc::SYS_sendto,
    libc::SYS_close,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_sched_yield,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_gettimeofday,
    libc::SYS_getrusage,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getrandom,
    libc::SYS_getcpu,
    libc::SYS_tgkill,
    libc::SYS_setitimer,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_restart_syscall,
];

/// Calls that map memory: never as code.
const MAPPINGS: &[(i64, u8)] = &[(libc::SYS_mmap, 2), (libc::SYS_mprotect, 2)];

/// Restricts this process, which must have one thread, to computing: whatever it calls beside that
/// fails with EPERM, and starting a program or tracing a process ends it.
///
/// # Errors
/// If the kernel has no seccomp filters, or this kind of machine is not known.
pub fn enforce_worker() -> io::Result<()> {
    let killed = KILLED.iter().map(|call| (*call, Vec::new())).collect();
    let killed = program(killed, SeccompAction::Allow, SeccompAction::KillProcess)?;
    let mut needed: BTreeMap<i64, Vec<SeccompRule>> =
        OF_A_WORKER.iter().map(|call| (*call, Vec::new())).collect();
    for (call, argument) in MAPPINGS {
        let executable = u64::from(libc::PROT_EXEC.unsigned_abs());
        let is_data = SeccompCondition::new(
            *argument,
            SeccompCmpArgLen::Dword,
            SeccompCmpOp::MaskedEq(executable),
            0,
        );
        let rule = is_data.and_then(|is| SeccompRule::new(vec![is])).map_err(io::Error::other)?;
        needed.insert(*call, vec![rule]);
    }
    let refused = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let needed = program(needed, refused, SeccompAction::Allow)?;
    seccompiler::apply_filter(&killed).map_err(io::Error::other)?;
    seccompiler::apply_filter(&needed).map_err(io::Error::other)
}

/// Calls that a program which is started to convert a file never needs: the network, other
/// processes, the system. Starting programs is what it is for, and its libraries need calls that
/// are not known here.
const NOT_OF_A_TOOL: &[i64] = &[
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_kill,
    libc::SYS_tkill,
];

/// Restricts this process before it starts a program that converts a file.
///
/// # Errors
/// If the kernel has no seccomp filters, or this kind of machine is not known.
pub fn enforce_tool() -> io::Result<()> {
    enforce_parent(NOT_OF_A_TOOL)
}

/// The same for a process that forks workers and ends them.
///
/// # Errors
/// As [`enforce_tool`].
pub fn enforce_supervisor() -> io::Result<()> {
    let ends = [libc::SYS_kill, libc::SYS_tkill];
    let refused: Vec<i64> =
        NOT_OF_A_TOOL.iter().copied().filter(|call| !ends.contains(call)).collect();
    enforce_parent(&refused)
}

/// For a process that starts others: what is refused, beside what only an intruder would do.
fn enforce_parent(refused: &[i64]) -> io::Result<()> {
    let starts = [libc::SYS_execve, libc::SYS_execveat];
    let killed = KILLED.iter().filter(|call| !starts.contains(call));
    let killed = killed.map(|call| (*call, Vec::new())).collect();
    let killed = program(killed, SeccompAction::Allow, SeccompAction::KillProcess)?;
    let refused = refused.iter().map(|call| (*call, Vec::new())).collect();
    let errno = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let refused = program(refused, SeccompAction::Allow, errno)?;
    seccompiler::apply_filter(&killed).map_err(io::Error::other)?;
    seccompiler::apply_filter(&refused).map_err(io::Error::other)
}

fn program(
    calls: BTreeMap<i64, Vec<SeccompRule>>,
    otherwise: SeccompAction,
    listed: SeccompAction,
) -> io::Result<BpfProgram> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(io::Error::other)?;
    let filter = SeccompFilter::new(calls, otherwise, listed, arch).map_err(io::Error::other)?;
    BpfProgram::try_from(filter).map_err(io::Error::other)
}

/// Restricts this thread and those that it starts, for good. With `network` it may open sockets.
///
/// # Errors
/// If the kernel has no seccomp filters, or this kind of machine is not known.
pub fn enforce(network: bool) -> io::Result<()> {
    let killed = KILLED.iter().map(|call| (*call, Vec::new())).collect();
    let killed = program(killed, SeccompAction::Allow, SeccompAction::KillProcess)?;
    let mut needed: BTreeMap<i64, Vec<SeccompRule>> =
        NEEDED.iter().chain(OLD_NAMES).map(|call| (*call, Vec::new())).collect();
    for (call, argument) in MODES {
        let private = SeccompCondition::new(
            *argument,
            SeccompCmpArgLen::Dword,
            SeccompCmpOp::MaskedEq(OTHERS),
            0,
        );
        let rule = private.and_then(|is| SeccompRule::new(vec![is])).map_err(io::Error::other)?;
        needed.insert(*call, vec![rule]);
    }
    if network {
        needed.extend(OF_THE_NODE.iter().map(|call| (*call, Vec::new())));
        let families = FAMILIES.iter().map(|family| {
            let family = family.unsigned_abs().into();
            let is = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, family)?;
            SeccompRule::new(vec![is])
        });
        let families = families.collect::<Result<Vec<_>, _>>().map_err(io::Error::other)?;
        needed.insert(libc::SYS_socket, families);
    }
    let refused = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let needed = program(needed, refused, SeccompAction::Allow)?;
    // The last one takes away the right to set another.
    seccompiler::apply_filter(&killed).map_err(io::Error::other)?;
    seccompiler::apply_filter(&needed).map_err(io::Error::other)
}
