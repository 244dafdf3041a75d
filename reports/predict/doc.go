// Package predict fits the time model of package kernels/model to recorded runs. It states the
// model's error on runs that were left out of the fit, and compares the model with published
// figures.
package predict
