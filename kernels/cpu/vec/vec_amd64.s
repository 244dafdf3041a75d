//go:build amd64 && !race

#include "textflag.h"

// Rounds the eight floats in a to nearest even BF16, one per 32-bit lane.
// Y14 holds 0x7fff, Y15 holds 1 in every lane; t is scratch.
#define ROUND(a, t) \
	VPSRLD $16, a, t; \
	VPAND Y15, t, t; \
	VPADDD Y14, a, a; \
	VPADDD t, a, a; \
	VPSRLD $16, a, a

// acc += w * widen(eight BF16 at mem); Y8 holds the weight.
#define TERM(mem, acc, t) \
	VPMOVZXWD mem, t; \
	VPSLLD $16, t, t; \
	VMULPS Y8, t, t; \
	VADDPS t, acc, acc

// func sumAVX2(dst *uint16, rows *[]uint16, weights *float32, n, cols int)
TEXT ·sumAVX2(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), DI
	MOVQ rows+8(FP), SI
	MOVQ weights+16(FP), DX
	MOVQ n+24(FP), CX
	MOVQ cols+32(FP), BX
	SHLQ $1, BX              // bytes of a row
	XORQ AX, AX              // byte offset of the current columns
	VPCMPEQD Y15, Y15, Y15
	VPSRLD $17, Y15, Y14     // 0x7fff
	VPSRLD $31, Y15, Y15     // 1

wide:
	LEAQ 64(AX), R8
	CMPQ R8, BX
	JGT narrow
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	VXORPS Y2, Y2, Y2
	VXORPS Y3, Y3, Y3
	MOVQ SI, R9
	MOVQ DX, R10
	MOVQ CX, R11

wideterm:
	MOVQ (R9), R12
	ADDQ AX, R12
	VBROADCASTSS (R10), Y8
	TERM((R12), Y0, Y4)
	TERM(16(R12), Y1, Y5)
	TERM(32(R12), Y2, Y6)
	TERM(48(R12), Y3, Y7)
	ADDQ $24, R9
	ADDQ $4, R10
	DECQ R11
	JNZ wideterm

	ROUND(Y0, Y4)
	ROUND(Y1, Y5)
	ROUND(Y2, Y6)
	ROUND(Y3, Y7)
	VPACKUSDW Y1, Y0, Y0
	VPACKUSDW Y3, Y2, Y2
	VPERMQ $0xD8, Y0, Y0
	VPERMQ $0xD8, Y2, Y2
	VMOVDQU Y0, (DI)(AX*1)
	VMOVDQU Y2, 32(DI)(AX*1)
	MOVQ R8, AX
	JMP wide

narrow:
	CMPQ AX, BX
	JGE done
	VXORPS Y0, Y0, Y0
	MOVQ SI, R9
	MOVQ DX, R10
	MOVQ CX, R11

narrowterm:
	MOVQ (R9), R12
	ADDQ AX, R12
	VBROADCASTSS (R10), Y8
	TERM((R12), Y0, Y4)
	ADDQ $24, R9
	ADDQ $4, R10
	DECQ R11
	JNZ narrowterm

	ROUND(Y0, Y4)
	VEXTRACTI128 $1, Y0, X1
	VPACKUSDW X1, X0, X0
	VMOVDQU X0, (DI)(AX*1)
	ADDQ $16, AX
	JMP narrow

done:
	VZEROUPPER
	RET

// func streamAVX2(dst, src *byte, bytes int)
TEXT ·streamAVX2(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ bytes+16(FP), CX

vectors:
	VMOVDQU (SI), Y0
	VMOVDQU 32(SI), Y1
	VMOVDQU 64(SI), Y2
	VMOVDQU 96(SI), Y3
	VMOVNTDQ Y0, (DI)
	VMOVNTDQ Y1, 32(DI)
	VMOVNTDQ Y2, 64(DI)
	VMOVNTDQ Y3, 96(DI)
	ADDQ $128, SI
	ADDQ $128, DI
	SUBQ $128, CX
	JNZ vectors
	SFENCE
	VZEROUPPER
	RET
