//! The simulation of a cluster.

mod cluster;
