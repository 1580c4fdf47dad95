// kvstores.h: the kvstores of this process. MXNet numbers them, but begins anew with 0 whenever one
// is destroyed, lets only number 0 push initial values, and ends the node with number 0, whoever
// else is there. So the node knows them by numbers of ours, which count up, MXNet reads 0 of each
// further one, and the node ends with the last.
#ifndef PSLITE_MXNET_KVSTORES_H_
#define PSLITE_MXNET_KVSTORES_H_

#include <vector>

#include "layout.h"

namespace pslite_mxnet {

// A kvstore's customer comes, and asks for a number. `further`: the job runs already, so it has
// keys of its own. Its number at the node.
int number_kvstore(int asked, bool further);

// It is there, and this thread is in its code.
void kvstore_is_here(ps::Customer* customer);

// It is gone.
void kvstore_is_gone(ps::Customer* customer);

// This thread is in the code of that kvstore.
void in_kvstore(ps::Customer* customer);

// The number at the node of the kvstore in whose code this thread is. `customer_id`: what MXNet
// said, which is the answer for one that the job was formed with.
int number_of_kvstore(int customer_id);

// The kvstore of MXNet at that address has initialised those keys; this thread is in its code. They
// are known until its customer is gone. Where MXNet has not asked for the customer (a worker that
// came back, other than rank 0), nothing is remembered: a later kvstore may be at that address.
void remember_keys(const void* kvstore, const std::vector<int>& keys);

// True if it has one of those keys: *key is the first.
bool knows_key(const void* kvstore, const std::vector<int>& keys, int* key);

// True once for each kvstore that has keys: the caller tells of the first key that came twice.
bool tell_once(const void* kvstore);

// True if other kvstores go on when this thread's is destroyed: then no server stops, nobody waits
// for the other workers, and the node runs on.
bool others_go_on();

// The node left the job: numbers begin anew.
void job_is_over();

}  // namespace pslite_mxnet

#endif  // PSLITE_MXNET_KVSTORES_H_
