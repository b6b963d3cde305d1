//! The operating system's file system.
