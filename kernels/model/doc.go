// Package model predicts the times of dispatch and combine for numbers of ranks and hosts that are not available.
//
// Package reports/predict fits the model to recorded runs.
package model
