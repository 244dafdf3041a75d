// Package model predicts the times of dispatch and combine for rank and host
// counts that nobody here has. Nothing in it is measured.
//
// A call costs what its busiest rank costs. The bytes of each rank over each link
// are counted from the drawn routing, see Count. Bandwidth and latency of the links
// are facts with a source, see File. What is left, the fixed costs and the share of a
// link that kernels reach, is fitted to recorded runs by reports/predict.
package model
