// ps/internal/assign_op.h: assignments by name: *rhs op= lhs.
#ifndef PS_INTERNAL_ASSIGN_OP_H_
#define PS_INTERNAL_ASSIGN_OP_H_

#include "ps/internal/utils.h"

namespace ps {

enum AssignOp { ASSIGN, PLUS, MINUS, TIMES, DIVIDE, AND, OR, XOR };

// For every type with arithmetic. Throws dmlc::Error for operations on bits.
template <typename T>
inline void AssignFunc(const T& lhs, AssignOp op, T* rhs) {
  switch (op) {
    case ASSIGN:
      *rhs = lhs;
      return;
    case PLUS:
      *rhs += lhs;
      return;
    case MINUS:
      *rhs -= lhs;
      return;
    case TIMES:
      *rhs *= lhs;
      return;
    case DIVIDE:
      *rhs /= lhs;
      return;
    default:
      LOG(FATAL) << "operations on bits are for integers: use AssignFuncInt";
  }
}

// For integers: those on bits too.
template <typename T>
inline void AssignFuncInt(const T& lhs, AssignOp op, T* rhs) {
  switch (op) {
    case AND:
      *rhs &= lhs;
      return;
    case OR:
      *rhs |= lhs;
      return;
    case XOR:
      *rhs ^= lhs;
      return;
    default:
      AssignFunc(lhs, op, rhs);
  }
}

}  // namespace ps

#endif  // PS_INTERNAL_ASSIGN_OP_H_
