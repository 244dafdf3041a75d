// Package predict fits the model of kernels/model to recorded runs, states its error on runs
// that were left out of the fit, and compares it with published figures.
package predict
