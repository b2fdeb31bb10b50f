#include "bindings/hybrid.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <span>

#include "bindings/batches.hpp"
#include "bindings/digest.hpp"
#include "dissect/vendors.hpp"
#include "hybrid/answer_columns.hpp"
#include "hybrid/hybrid_digest.hpp"
#include "hybrid/reference.hpp"

namespace nb = nanobind;

namespace acapella {
namespace {

hybrid::Policy policy_of(std::uint32_t first, std::uint32_t kinds, std::uint32_t again) {
    return {first, kinds, again};
}

// Called while tshark is waited for: lets Ctrl-C through.
void check_signals() {
    const nb::gil_scoped_acquire locked;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

// Python's view: it starts tshark and gives both ends of its pipes.
class PyHybridDigest : public PyBatches<hybrid::HybridDigest> {
  public:
    PyHybridDigest(const std::string& path, std::optional<std::string> site, std::optional<std::string> port,
                   std::size_t batch_rows, bool ask_all, const hybrid::Policy& policy, int questions,
                   int answers, const Vendors* vendors, const input::DecompressionLimits& limits,
                   std::uint64_t memory_bytes, double answer_s)
        : PyBatches(path, Place{std::move(site), std::move(port)}, batch_rows,
                    hybrid::Options{ask_all, policy, vendors, limits, memory_bytes, hybrid::Seconds(answer_s),
                                    check_signals},
                    questions, answers) {}

    std::uint32_t flows() const { return digest_.ledger().accountant().size(); }
    std::uint64_t frames_sent() const { return digest_.frames_sent(); }
    nb::dict summary() const {
        nb::dict result = summary_dict(digest_.ledger(), digest_.front());
        result["contradictions"] = digest_.contradictions();
        return result;
    }
};

// tshark's own digest of a file.
class PyReference : public PyBatches<hybrid::Reference> {
  public:
    PyReference(int answers, std::size_t batch_rows, double answer_s)
        : PyBatches(answers, batch_rows, hybrid::Seconds(answer_s), check_signals) {}

    ArrowBatch tags() { return ArrowBatch(digest_.tags()); }
    std::uint32_t flows() const { return digest_.flows(); }
    std::uint64_t blocks_not_frames() const { return digest_.blocks_not_frames(); }
};

nb::tuple field_names(std::size_t count) {
    nb::list names;
    for (const std::string_view name : std::span(hybrid::kFieldNames).first(count))
        names.append(nb::str(name.data(), name.size()));
    return nb::tuple(names);
}

nb::tuple column_expressions() {
    nb::list columns;
    const auto add = [&](std::span<const hybrid::Field> fields) {
        const std::string text = hybrid::expression_of(fields);
        columns.append(nb::str(text.data(), text.size()));
    };
    add(hybrid::kFrameColumn);
    for (const hybrid::Column& column : hybrid::kColumns) add(std::span(column.fields).first(column.count));
    return nb::tuple(columns);
}

}  // namespace

void bind_hybrid(nb::module_& module) {
    nb::exception<hybrid::AskingError>(module, "AskingError", PyExc_OSError);
    nb::exception<hybrid::AnswerError>(module, "AnswerError", PyExc_OSError);
    nb::exception<hybrid::TsharkTimeout>(module, "TsharkTimeout", PyExc_OSError);
    module.attr("ANSWER_FIELDS") = field_names(hybrid::kAskedFields);
    module.attr("ANSWER_COLUMNS") = column_expressions();
    module.attr("REFERENCE_FIELDS") = field_names(hybrid::kFields);
    module.attr("POLICY") =
        nb::make_tuple(hybrid::Policy().first, hybrid::Policy().kinds, hybrid::Policy().again);
    nb::class_<hybrid::Policy>(module, "Policy", "How many frames of a flow tshark shall see")
        .def(
            "__init__",
            [](hybrid::Policy* self, std::uint32_t first, std::uint32_t kinds, std::uint32_t again) {
                new (self) hybrid::Policy(policy_of(first, kinds, again));
            },
            nb::arg("first"), nb::arg("kinds"), nb::arg("again"));
    nb::class_<PyHybridDigest> digest(module, "HybridDigest",
                                      "Engines hybrid and tshark: as NativeDigest, with a tshark");
    def_batches(digest);
    digest
        .def(nb::init<const std::string&, std::optional<std::string>, std::optional<std::string>, std::size_t,
                      bool, const hybrid::Policy&, int, int, const Vendors*,
                      const input::DecompressionLimits&, std::uint64_t, double>(),
             nb::arg("path"), nb::arg("site").none(), nb::arg("port").none(), nb::arg("batch_rows"),
             nb::arg("ask_all"), nb::arg("policy"), nb::arg("questions"), nb::arg("answers"),
             nb::arg("vendors") = nb::none(), nb::arg("limits") = input::DecompressionLimits(),
             nb::arg("memory_bytes") = kUnlimited, nb::arg("answer_s") = 120.0, nb::keep_alive<1, 10>())
        .def_prop_ro("frames_sent", &PyHybridDigest::frames_sent)
        .def("summary", &PyHybridDigest::summary);
    nb::class_<PyReference> reference(module, "Reference",
                                      "Both tables as tshark alone has them, from REFERENCE_FIELDS");
    def_batches(reference);
    reference
        .def(nb::init<int, std::size_t, double>(), nb::arg("answers"), nb::arg("batch_rows"),
             nb::arg("answer_s"))
        .def("tags", &PyReference::tags, "Columns frame, vlan, mpls, tunnels, eth_dst of these rows")
        .def_prop_ro("blocks_not_frames", &PyReference::blocks_not_frames);
}

}  // namespace acapella
