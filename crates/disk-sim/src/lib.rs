//! The platter in software: recording rules, mechanics, backing, faults.
