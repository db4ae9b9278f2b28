//! Whole-stack seeded runs against a model.
