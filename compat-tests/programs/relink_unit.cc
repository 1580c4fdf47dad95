// Half of a program whose other half is relink_parts.cc, where -DRELINK_TWO_UNITS calls it: the
// headers in two units of one program are the same objects.
#include <ps/internal/threadsafe_pqueue.h>
#include <ps/ps.h>

ps::Postoffice* postoffice_of_the_other_unit() { return ps::Postoffice::Get(); }
ps::Environment* environment_of_the_other_unit() { return ps::Environment::Get(); }
const int* empty_of_the_other_unit() { return &ps::Meta::kEmpty; }
