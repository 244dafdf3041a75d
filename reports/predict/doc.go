// Package predict fits the model of kernels/model to recorded runs, says how far it is
// off on runs that it had not seen, and puts published figures beside it.
package predict
