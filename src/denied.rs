//! Errors of permissions, which another user would not have.

/// A file could not be read for want of permission.
pub(crate) fn is_denied(error: &anyhow::Error) -> bool {
    let denied = |cause: &(dyn std::error::Error + 'static)| {
        let io = cause.downcast_ref::<std::io::Error>();
        io.is_some_and(|e| e.kind() == std::io::ErrorKind::PermissionDenied)
    };
    // Some errors keep the system's as text.
    let code = format!("(os error {})", libc::EACCES);
    error.chain().any(denied) || format!("{error:#}").contains(&code)
}
