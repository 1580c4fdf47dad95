// libnccl's place for groups of one GPU: what sets a group up succeeds, what would move data
// between GPUs fails.

#include <nccl.h>
#include <string.h>

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclSuccess ? "no error" : "the stand-in has no second GPU";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  memset(id, 0, sizeof(*id));
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  (void)id;
  *comm = NULL;
  return ranks == 1 && rank == 0 ? ncclSuccess : ncclInvalidUsage;
}

ncclResult_t ncclGroupStart(void) { return ncclSuccess; }

ncclResult_t ncclGroupEnd(void) { return ncclSuccess; }

ncclResult_t ncclReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  (void)from, (void)to, (void)count, (void)type, (void)op, (void)root, (void)comm, (void)stream;
  return ncclInvalidUsage;
}

ncclResult_t ncclReduceScatter(const void* from, void* to, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  (void)from, (void)to, (void)count, (void)type, (void)op, (void)comm, (void)stream;
  return ncclInvalidUsage;
}

ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  (void)from, (void)to, (void)count, (void)type, (void)comm, (void)stream;
  return ncclInvalidUsage;
}

ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  (void)from, (void)to, (void)count, (void)type, (void)root, (void)comm, (void)stream;
  return ncclInvalidUsage;
}
