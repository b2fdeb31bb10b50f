#include <nanobind/nanobind.h>

#include "bindings/anonymize.hpp"
#include "bindings/arrow_batch.hpp"
#include "bindings/collector.hpp"
#include "bindings/confinement.hpp"
#include "bindings/digest.hpp"
#include "bindings/errors.hpp"
#include "bindings/extract.hpp"
#include "bindings/file_info.hpp"
#include "bindings/hybrid.hpp"
#include "bindings/kappa.hpp"
#include "bindings/merge.hpp"

namespace {

constexpr const char* kSourcesSha256 =
#include "sources_sha256.inc"
    ;

}  // namespace

NB_MODULE(_native, module) {
    module.doc() = "The native core: converts captures to Arrow columns";
    module.attr("sources_sha256") = kSourcesSha256;
    acapella::bind_errors(module);
    acapella::bind_captures(module);
    acapella::bind_arrow_batch(module);
    acapella::bind_digest(module);
    acapella::bind_hybrid(module);
    acapella::bind_confinement(module);
    acapella::bind_kappa(module);
    acapella::bind_anonymize(module);
    acapella::bind_collector(module);
    acapella::bind_merge(module);
    acapella::bind_extract(module);
}
