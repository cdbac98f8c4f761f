//! Load generators and measurement.
