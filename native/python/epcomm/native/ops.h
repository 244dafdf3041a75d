/* The operators that ops.cpp registers with PyTorch. */
#ifndef EPCOMM_NATIVE_OPS_H
#define EPCOMM_NATIVE_OPS_H

#include <tuple>

#include "native.h"

namespace native {

std::tuple<Tensor, Tensor, Tensor> layout(int64_t link, int64_t stream, Tensor ids, int64_t experts, int64_t ranks);

/* Returns recv_x, its scales, recv_topk_idx, recv_topk_weights, recv_src_idx, rank_prefix_matrix and index. */
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> dispatch(
    int64_t link, int64_t stream, int64_t key, Tensor x, MaybeTensor scales, Tensor per_rank, Tensor per_expert, Tensor in_rank,
    MaybeTensor ids, MaybeTensor weights, int64_t align, int64_t worst);

std::tuple<Tensor, Tensor> dispatch_again(int64_t link, int64_t stream, int64_t key, Tensor x, MaybeTensor scales, Tensor index,
                                          int64_t tokens, int64_t received, int64_t fullest);

/* Returns the combined tokens and their weights. If `weights` is empty, it returns the tokens in both places. */
std::tuple<Tensor, Tensor> combine(int64_t link, int64_t stream, int64_t key, int64_t fp8, int64_t tokens, int64_t received, int64_t fullest, Tensor y,
                                   Tensor index, MaybeTensor weights);

/* Returns recv_x, the scales of recv_x, recv_count, src_info and layout_range. BF16 has no scales, so recv_count then
 * takes their place. */
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> ll_dispatch(int64_t link, int64_t stream, int64_t key, Tensor x, MaybeTensor scales, Tensor ids,
                                                               int64_t fp8, int64_t later, MaybeTensor stats);

Tensor ll_combine(int64_t link, int64_t stream, int64_t key, int64_t fp8, int64_t tokens, int64_t later, Tensor y, Tensor ids, Tensor weights, Tensor src_info,
                  MaybeTensor given);

void ll_receive(int64_t link, int64_t stream, int64_t op, MaybeTensor stats);

void call(int64_t link, int64_t stream, int64_t which, Tensor rows, Tensor ids, Tensor weights, MaybeTensor out, int64_t fullest,
          int64_t slot, int64_t dtype, int64_t routing, int64_t purpose);

} // namespace native

#endif
