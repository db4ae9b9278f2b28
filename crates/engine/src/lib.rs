//! An ordered, durable key-value store for disks whose tracks overlap.
