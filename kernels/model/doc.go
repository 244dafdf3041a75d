// Package model predicts the times of dispatch and combine for numbers of ranks and hosts
// that are not available. It measures nothing.
//
// The time of a call is the time of its busiest rank. Count draws a routing and counts the messages of
// each rank over each link. File holds bandwidth and latency of the links, each with its source.
// Package reports/predict fits the other costs to recorded runs: fixed costs, and the share of a link's
// bandwidth that kernels reach.
package model
