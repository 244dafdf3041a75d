// Package predict fits the time model of package kernels/model to recorded runs. It states the error on left-out runs,
// and compares the model with published figures.
package predict
