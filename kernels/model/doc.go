// Package model predicts the times of dispatch and combine for numbers of ranks and hosts
// that are not available. It measures nothing.
//
// The time of a call is that of its busiest rank. Count counts each rank's bytes over each
// link from the drawn routing. File has bandwidth and latency of the links as facts with a
// source. Package reports/predict fits the rest to recorded runs: fixed costs, and the share
// of a link's bandwidth that kernels reach.
package model
