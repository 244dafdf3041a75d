// Package model predicts the times of dispatch and combine for numbers of ranks and hosts that are not available.
//
// The time of a call is the time of its busiest rank. Package reports/predict fits the coefficients to recorded
// runs.
package model
