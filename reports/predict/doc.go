// Package predict fits the time model of package kernels/model to recorded runs. It compares the model with published
// figures.
package predict
