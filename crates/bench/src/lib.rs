//! Workloads, runners and reports.
