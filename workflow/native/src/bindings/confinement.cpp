#include "bindings/confinement.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <memory>
#include <optional>
#include <utility>

#include "confine/confinement.hpp"
#include "confine/open_beneath.hpp"

namespace nb = nanobind;

namespace acapella {
namespace {

using Strings = std::vector<std::string>;

// A started program. Its destructor kills it, because a signal handler of Python may raise an exception
// before the caller has stored the object that `spawn` returns.
class ConfinedProcess {
  public:
    explicit ConfinedProcess(pid_t pid) : pid_(pid) {}
    ConfinedProcess(const ConfinedProcess&) = delete;
    ConfinedProcess& operator=(const ConfinedProcess&) = delete;
    ~ConfinedProcess() { wait(); }

    [[nodiscard]] pid_t pid() const { return pid_; }

    // Kills the process group. Its number cannot be reused until the process has been waited for.
    void kill() const {
        if (!ended_) (void)::kill(-pid_, SIGKILL);
    }

    // Kills the process group and returns the status of the process (wait(2)). Raises ChildProcessError if
    // the kernel has discarded it, because SIGCHLD is ignored.
    int end() {
        wait();
        if (status_) return *status_;
        errno = ECHILD;
        PyErr_SetFromErrno(PyExc_OSError);
        throw nb::python_error();
    }

  private:
    void wait() {
        if (std::exchange(ended_, true)) return;
        (void)::kill(-pid_, SIGKILL);
        int status = 0;
        pid_t found = 0;
        while ((found = ::waitpid(pid_, &status, 0)) < 0 && errno == EINTR) {
        }
        if (found == pid_) status_ = status;
    }

    pid_t pid_;
    std::optional<int> status_;
    bool ended_ = false;
};

std::unique_ptr<ConfinedProcess> spawn(std::string path, Strings arguments, Strings environment,
                                       const nb::tuple& streams, Strings readable, const nb::tuple& limits) {
    const confine::Program program{std::move(path),           std::move(arguments),
                                   std::move(environment),    nb::cast<int>(streams[0]),
                                   nb::cast<int>(streams[1]), nb::cast<int>(streams[2])};
    const confine::Rights rights{std::move(readable), nb::cast<std::uint64_t>(limits[0]),
                                 nb::cast<std::uint64_t>(limits[1]), nb::cast<std::uint64_t>(limits[2]),
                                 nb::cast<std::uint64_t>(limits[3])};
    try {
        return std::make_unique<ConfinedProcess>(confine::spawn(program, rights));
    } catch (const confine::SpawnError& error) {
        errno = error.error();
        PyErr_SetFromErrnoWithFilename(PyExc_OSError, program.path.c_str());
        throw nb::python_error();
    }
}

int open_directory(int descriptor, const nb::bytes& path) {
    const int opened = confine::open_beneath(descriptor, {path.c_str(), path.size()});
    if (opened >= 0) return opened;
    PyErr_SetFromErrno(PyExc_OSError);
    throw nb::python_error();
}

nb::dict kernel_support() {
    const confine::KernelSupport found = confine::kernel_support();
    nb::dict result;
    result["landlock_abi"] = found.landlock_abi;
    result["seccomp"] = found.seccomp;
    result["other_user"] = found.other_user;
    return result;
}

}  // namespace

void bind_confinement(nb::module_& module) {
    nb::class_<ConfinedProcess>(module, "ConfinedProcess", "A started program; killed when it is deleted")
        .def_prop_ro("pid", &ConfinedProcess::pid)
        .def("kill", &ConfinedProcess::kill, "Kill the process group, unless `end` has been called")
        .def("end", &ConfinedProcess::end,
             "Kill the process group; return the status of the process (wait(2))");
    module.def("spawn_confined", &spawn, nb::arg("path"), nb::arg("arguments"), nb::arg("environment"),
               nb::arg("streams"), nb::arg("readable"), nb::arg("limits"), "See acapella.common.confined");
    module.def(
        "confine_self", &confine::confine_self, nb::arg("writable"), nb::arg("allow_listen") = false,
        nb::arg("allow_programs") = false,
        "Restrict this thread and the programs that it starts: writes only beneath these directories, no "
        "network (allow_listen: listening Unix sockets), signals only to this process (allow_programs: also "
        "to the programs)");
    module.def(
        "open_beneath", &open_directory, nb::arg("descriptor"), nb::arg("path"),
        "Open a directory below an open directory; symbolic links are errors; see acapella_core.beneath");
    module.def("confinement_support", &kernel_support,
               "Confinement features of the kernel: Landlock ABI, seccomp, other user ids");
}

}  // namespace acapella
