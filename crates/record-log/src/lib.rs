//! One checksummed log format for the write-ahead log, the catalog and the map journal.
