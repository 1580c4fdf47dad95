// What fails in the Python part of MXNet's own server. MXNet calls Python there for an optimizer
// that comes and for every update, both by ctypes callbacks, and waits for their ends. An exception
// cannot leave such a callback: Python prints it, and MXNet answers the worker as if nothing had
// happened. So the interpreter's hook for exceptions that nobody can catch also tells us.
//
// The interpreter is that of this process, found by name. A server without one has nothing to
// watch.
#include "python.h"

#include <atomic>
#include <cstdio>
#include <dlfcn.h>
#include <mutex>

#include "pslite.h"

namespace pslite_mxnet {

namespace {

// From Python's stable ABI.
const int kFileInput = 257;
typedef int (*Ensure)();
typedef void (*Release)(int);
typedef int (*IsInitialized)();
typedef void* (*NewDict)();
typedef void* (*Builtins)();
typedef int (*SetItem)(void*, const char*, void*);
typedef void* (*Run)(const char*, int, void*, void*);
typedef void (*Clear)();

// The number is the address of `note_failure`. `Test` of MXNet fails to copy row_sparse weights
// into its state only after it has updated them. Until Python 3.7 such exceptions came to
// sys.excepthook.
const char kHook[] = R"(
import ctypes, sys, traceback

def install(note=ctypes.CFUNCTYPE(None, ctypes.c_char_p)(%zu)):
    def is_done(trace):
        while trace is not None:
            code, own = trace.tb_frame.f_code, trace.tb_frame.f_locals.get('self')
            kind = type(own)
            name = '.'.join((kind.__module__, kind.__name__, code.co_name))
            if name == 'mxnet.optimizer.optimizer.Test.update':
                return True
            trace = trace.tb_next
        return False

    def tell(kind, value, trace):
        try:
            if not is_done(trace):
                text = ''.join(traceback.format_exception_only(kind, value)).strip()
                note(text.encode('utf-8', 'replace'))
        except Exception:
            note(b'an exception')

    if hasattr(sys, 'unraisablehook'):
        before = sys.unraisablehook
        def hook(args):
            if 'ctypes callback' in (args.err_msg or ''):
                tell(args.exc_type, args.exc_value, args.exc_traceback)
            before(args)
        sys.unraisablehook = hook
    else:
        former = sys.excepthook
        def former_hook(kind, value, trace):
            tell(kind, value, trace)
            former(kind, value, trace)
        sys.excepthook = former_hook

install()
)";

std::mutex failure_mutex;
std::atomic<bool> has_failed(false);

// Never destroyed: the interpreter may still fail while the process ends.
std::string& failure() {
  static std::string& text = *new std::string();
  return text;
}

void note_failure(const char* what) {
  std::string text = std::string("MXNet's own server failed, in Python: ") + (what ? what : "");
  if (text.find("__main__") != std::string::npos) {
    text += "; servers cannot see what the training script defines: put the class into a module "
            "that they can import";
  }
  if (text.find("partially initialized module 'mxnet'") != std::string::npos) {
    text +=
        "; servers run inside `import mxnet`: import what the class uses by its own name, as in "
        "`from mxnet.ndarray import zeros`";
  }
  pslite_log(0, text.c_str());
  std::lock_guard<std::mutex> lock(failure_mutex);
  if (!has_failed) failure() = text;
  has_failed = true;
}

template <typename F>
bool find(F* function, const char* name) {
  *function = reinterpret_cast<F>(dlsym(RTLD_DEFAULT, name));
  return *function != nullptr;
}

// A server and a scheduler run inside `import mxnet`, where an exception shows thirty lines of the
// wheel's modules. What it says was printed when it happened. A hook of the script's own stays.
const char kQuiet[] = R"(
import sys

def install(former=sys.excepthook):
    def hook(kind, value, trace):
        if kind.__name__ != 'MXNetError':
            former(kind, value, trace)
    if former is sys.__excepthook__:
        sys.excepthook = hook

install()
)";

// Runs a program in the interpreter of this process. False if there is none, or if it fails. The
// interpreter must have been given away by all threads of ours, as it is inside of MXNet's calls.
bool run_python(const char* code) {
  Ensure ensure;
  Release release;
  IsInitialized is_initialized;
  NewDict new_dict;
  Builtins builtins;
  SetItem set_item;
  Run run;
  Clear clear;
  if (!find(&ensure, "PyGILState_Ensure") || !find(&release, "PyGILState_Release") ||
      !find(&is_initialized, "Py_IsInitialized") || !find(&new_dict, "PyDict_New") ||
      !find(&builtins, "PyEval_GetBuiltins") || !find(&set_item, "PyDict_SetItemString") ||
      !find(&run, "PyRun_String") || !find(&clear, "PyErr_Clear") || !is_initialized()) {
    return false;
  }
  const int state = ensure();
  // Never released: the hook lives in it, for as long as the interpreter.
  void* names = new_dict();
  if (names) set_item(names, "__builtins__", builtins());
  const bool is_done = names && run(code, kFileInput, names, names);
  if (!is_done) clear();
  release(state);
  return is_done;
}

// On the customer's thread. MXNet's main thread gave the interpreter away when it went into its
// main loop.
bool install_hook() {
  char code[sizeof kHook + 32];
  snprintf(code, sizeof code, kHook, reinterpret_cast<size_t>(&note_failure));
  const bool installed = run_python(code);
  if (!installed) pslite_log(1, "exceptions in MXNet's own server cannot be watched");
  return installed;
}

}  // namespace

void watch_python() {
  static const bool installed = install_hook();
  (void)installed;
  has_failed = false;
}

void show_no_traceback() { run_python(kQuiet); }

std::string python_failure() {
  if (!has_failed) return std::string();
  std::lock_guard<std::mutex> lock(failure_mutex);
  return failure();
}

}  // namespace pslite_mxnet
