#include "ops.h"

STABLE_TORCH_LIBRARY(epcomm_native, m) {
  m.def("layout(int link, int stream, Tensor ids, int experts, int ranks) -> (Tensor, Tensor, Tensor)");
  m.def("dispatch(int link, int stream, int key, Tensor x, Tensor? scales, Tensor per_rank, Tensor per_expert, Tensor in_rank, "
        "Tensor? ids, Tensor? weights, int align, int worst) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)");
  m.def("dispatch_again(int link, int stream, int key, Tensor x, Tensor? scales, Tensor index, int tokens, int received, int fullest) -> (Tensor, Tensor)");
  m.def("combine(int link, int stream, int key, int fp8, int tokens, int received, int fullest, Tensor y, Tensor index, Tensor? weights) -> (Tensor, Tensor)");
  m.def("ll_dispatch(int link, int stream, int key, Tensor x, Tensor? scales, Tensor ids, int fp8, int later, Tensor? stats) "
        "-> (Tensor, Tensor, Tensor, Tensor, Tensor)");
  m.def("ll_combine(int link, int stream, int key, int fp8, int tokens, int later, Tensor y, Tensor ids, Tensor weights, Tensor src_info, Tensor? given) -> Tensor");
  m.def("call(int link, int stream, int which, Tensor rows, Tensor ids, Tensor weights, Tensor? out, int fullest, int slot, int dtype, "
        "int routing, int purpose) -> ()");
  m.def("ll_receive(int link, int stream, int op, Tensor? stats) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(epcomm_native, CompositeExplicitAutograd, m) {
  m.impl("layout", TORCH_BOX(&native::layout));
  m.impl("dispatch", TORCH_BOX(&native::dispatch));
  m.impl("dispatch_again", TORCH_BOX(&native::dispatch_again));
  m.impl("combine", TORCH_BOX(&native::combine));
  m.impl("ll_dispatch", TORCH_BOX(&native::ll_dispatch));
  m.impl("ll_combine", TORCH_BOX(&native::ll_combine));
  m.impl("call", TORCH_BOX(&native::call));
  m.impl("ll_receive", TORCH_BOX(&native::ll_receive));
}
