// Builds plans of some graphs through cudnn-frontend, for a device that a file describes, without a handle or a GPU.
// Prints the name and workspace of every plan.
#include <cudnn_frontend.h>
#include <fstream>
#include <iostream>
#include <iterator>

// The frontend queries the CUDA runtime even if it plans for a described device. These functions replace the runtime.
extern "C" cudaError_t cudaGetDevice(int *device) { *device = 0; return cudaSuccess; }
extern "C" cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int) {
    *value = attribute == cudaDevAttrComputeCapabilityMajor ? 9 : attribute == cudaDevAttrMultiProcessorCount ? 132 : 0;
    return cudaSuccess;
}

namespace fe = cudnn_frontend;
using Graph = fe::graph::Graph;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

static Tensor tensor(Graph &graph, const char *name, std::vector<int64_t> dim, std::vector<int64_t> stride) {
    return graph.tensor(fe::graph::Tensor_attributes().set_name(name).set_dim(dim).set_stride(stride));
}
static std::vector<int64_t> packed(std::vector<int64_t> const &dim) {
    std::vector<int64_t> stride(dim.size(), 1);
    for (size_t i = dim.size() - 1; i-- > 0;) stride[i] = stride[i + 1] * dim[i + 1];
    return stride;
}
static Tensor plain(Graph &graph, const char *name, std::vector<int64_t> dim) { return tensor(graph, name, dim, packed(dim)); }
// N, C, H, W with the channels last.
static Tensor image(Graph &graph, const char *name, int64_t n, int64_t c, int64_t h, int64_t w) {
    return tensor(graph, name, {n, c, h, w}, {h * w * c, 1, w * c, c});
}

static void attention(Graph &graph, int64_t sequence) {
    std::vector<int64_t> dim{2, 4, sequence, 64}, stride{sequence * 256, 64, 256, 1};
    auto options = fe::graph::SDPA_attributes().set_name("sdpa").set_generate_stats(true).set_causal_mask(true).set_attn_scale(0.125f);
    auto [o, stats] = graph.sdpa(tensor(graph, "q", dim, stride), tensor(graph, "k", dim, stride), tensor(graph, "v", dim, stride), options);
    o->set_output(true).set_dim(dim).set_stride(stride);
    stats->set_output(true).set_data_type(fe::DataType_t::FLOAT);
}
static void attention_backward(Graph &graph, int64_t sequence) {
    std::vector<int64_t> dim{2, 4, sequence, 64}, stride{sequence * 256, 64, 256, 1};
    auto stats = plain(graph, "stats", {2, 4, sequence, 1});
    stats->set_data_type(fe::DataType_t::FLOAT);
    auto options = fe::graph::SDPA_backward_attributes().set_name("sdpa backward").set_causal_mask(true).set_attn_scale(0.125f);
    auto make = [&](const char *name) { return tensor(graph, name, dim, stride); };
    auto [dq, dk, dv] = graph.sdpa_backward(make("q"), make("k"), make("v"), make("o"), make("do"), stats, options);
    for (auto &gradient : {dq, dk, dv}) gradient->set_output(true).set_dim(dim).set_stride(stride);
}
static void convolution(Graph &graph, int64_t channels) {
    auto x = image(graph, "x", 4, channels, 16, 16), w = image(graph, "w", 32, channels, 3, 3), b = image(graph, "b", 1, 32, 1, 1);
    auto y = graph.conv_fprop(x, w, fe::graph::Conv_fprop_attributes().set_padding({1, 1}).set_stride({1, 1}).set_dilation({1, 1}));
    auto z = graph.pointwise(y, b, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD));
    graph.pointwise(z, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::RELU_FWD))->set_output(true);
}
static void matmul(Graph &graph, int64_t rows) {
    auto a = plain(graph, "a", {1, rows, 64}), b = plain(graph, "b", {1, 64, 96}), bias = plain(graph, "bias", {1, 1, 96});
    auto c = graph.matmul(a, b, fe::graph::Matmul_attributes().set_compute_data_type(fe::DataType_t::FLOAT));
    auto d = graph.pointwise(c, bias, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD));
    graph.pointwise(d, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::GELU_FWD))->set_output(true);
}
static void layer_norm(Graph &graph, int64_t hidden) {
    auto x = tensor(graph, "x", {64, hidden, 1, 1}, {hidden, 1, hidden, hidden});
    auto scale = tensor(graph, "scale", {1, hidden, 1, 1}, {hidden, 1, hidden, hidden});
    auto bias = tensor(graph, "bias", {1, hidden, 1, 1}, {hidden, 1, hidden, hidden});
    scale->set_data_type(fe::DataType_t::FLOAT);
    bias->set_data_type(fe::DataType_t::FLOAT);
    auto epsilon = graph.tensor(1e-5f);
    auto options = fe::graph::Layernorm_attributes().set_forward_phase(fe::NormFwdPhase_t::TRAINING).set_epsilon(epsilon);
    auto [y, mean, inverse] = graph.layernorm(x, scale, bias, options);
    y->set_output(true);
    mean->set_output(true).set_data_type(fe::DataType_t::FLOAT);
    inverse->set_output(true).set_data_type(fe::DataType_t::FLOAT);
}
static void rms_norm(Graph &graph, int64_t hidden) {
    auto x = tensor(graph, "x", {64, hidden, 1, 1}, {hidden, 1, hidden, hidden});
    auto scale = tensor(graph, "scale", {1, hidden, 1, 1}, {hidden, 1, hidden, hidden});
    scale->set_data_type(fe::DataType_t::FLOAT);
    auto epsilon = graph.tensor(1e-5f);
    auto options = fe::graph::Rmsnorm_attributes().set_forward_phase(fe::NormFwdPhase_t::INFERENCE).set_epsilon(epsilon);
    auto [y, inverse] = graph.rmsnorm(x, scale, options);
    y->set_output(true);
}
static void convolution_backward(Graph &graph, int64_t c) {
    auto dy = image(graph, "dy", 4, 32, 16, 16), w = image(graph, "w", 32, c, 3, 3);
    auto dx = graph.conv_dgrad(dy, w, fe::graph::Conv_dgrad_attributes().set_padding({1, 1}).set_stride({1, 1}).set_dilation({1, 1}));
    dx->set_dim({4, c, 16, 16});
    graph.pointwise(dx, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::RELU_FWD))->set_output(true);
}
static void layer_norm_backward(Graph &graph, int64_t hidden) {
    auto t=[&](const char*n){return tensor(graph, n, {64, hidden, 1, 1}, {hidden, 1, hidden, hidden});};
    auto x = t("x"), dy = t("dy");
    auto scale = tensor(graph, "scale", {1, hidden, 1, 1}, {hidden, 1, hidden, hidden}); scale->set_data_type(fe::DataType_t::FLOAT);
    auto mean = tensor(graph, "mean", {64, 1, 1, 1}, {1, 1, 1, 1}), inv = tensor(graph, "inv", {64, 1, 1, 1}, {1, 1, 1, 1});
    mean->set_data_type(fe::DataType_t::FLOAT); inv->set_data_type(fe::DataType_t::FLOAT);
    auto [dx, ds, db] = graph.layernorm_backward(dy, x, scale, fe::graph::Layernorm_backward_attributes().set_saved_mean_and_inv_variance(mean, inv));
    dx->set_output(true); ds->set_output(true).set_data_type(fe::DataType_t::FLOAT); db->set_output(true).set_data_type(fe::DataType_t::FLOAT);
}
static void attention_with_dropout(Graph &graph, int64_t s) {
    std::vector<int64_t> dim{2, 4, s, 64}, stride{s * 256, 64, 256, 1};
    auto scalar=[&](const char*n){auto t=tensor(graph,n,{1,1,1,1},{1,1,1,1}); t->set_data_type(fe::DataType_t::INT64); return t;};
    auto len=[&](const char*n,int64_t m){auto t=tensor(graph,n,{m,1,1,1},{1,1,1,1}); t->set_data_type(fe::DataType_t::INT32); return t;};
    auto rag=len("ragged",3);
    auto q=tensor(graph,"q",dim,stride); q->set_ragged_offset(rag);
    auto options = fe::graph::SDPA_attributes().set_name("sdpa").set_generate_stats(false).set_dropout(0.1f, scalar("seed"), scalar("offset")).set_padding_mask(true).set_seq_len_q(len("sq",2)).set_seq_len_kv(len("sk",2)).set_attn_scale(0.125f);
    auto [o, stats] = graph.sdpa(q, tensor(graph, "k", dim, stride), tensor(graph, "v", dim, stride), options);
    o->set_output(true).set_dim(dim).set_stride(stride).set_ragged_offset(rag);
}
static void unified_attention(Graph &graph, int64_t s) {
    std::vector<int64_t> dim{2, 4, s, 64}, stride{s * 256, 64, 256, 1};
    auto options = fe::graph::SDPA_attributes().set_name("sdpa").set_generate_stats(true).set_attn_scale(0.125f).set_implementation(fe::AttentionImplementation_t::UNIFIED);
    auto [o, stats] = graph.sdpa(tensor(graph, "q", dim, stride), tensor(graph, "k", dim, stride), tensor(graph, "v", dim, stride), options);
    o->set_output(true).set_dim(dim).set_stride(stride);
    stats->set_output(true).set_data_type(fe::DataType_t::FLOAT);
}
static void matmul_and_reduction(Graph &graph, int64_t rows) {
    auto a = plain(graph, "a", {1, rows, 64}), b = plain(graph, "b", {1, 64, 96});
    auto c = graph.matmul(a, b, fe::graph::Matmul_attributes().set_compute_data_type(fe::DataType_t::FLOAT).set_padding(2.0));
    auto d = graph.pointwise(c, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::SWISH_FWD).set_swish_beta(0.3f));
    auto r = graph.reduction(d, fe::graph::Reduction_attributes().set_mode(fe::ReductionMode_t::ADD));
    r->set_output(true).set_data_type(fe::DataType_t::FLOAT).set_dim({1,1,96});
}
static void batch_norm(Graph &graph, int64_t hidden) {
    auto x = tensor(graph, "x", {8, hidden, 8, 8}, {hidden*64, 1, hidden*8, hidden});
    auto f=[&](const char*n){auto t=tensor(graph,n,{1,hidden,1,1},{hidden,1,hidden,hidden}); t->set_data_type(fe::DataType_t::FLOAT); return t;};
    auto scale=f("s"), bias=f("b"); auto epsilon = graph.tensor(1e-5f), mom=graph.tensor(0.1f);
    auto pm=f("pm"),pv=f("pv");
    auto options = fe::graph::Batchnorm_attributes().set_epsilon(epsilon).set_previous_running_stats(pm,pv,mom);
    auto [y,m,v,nm,nv] = graph.batchnorm(x,scale,bias,options);
    y->set_output(true); for(auto&t:{m,v,nm,nv}) t->set_output(true).set_data_type(fe::DataType_t::FLOAT);
}

int main(int, char **arguments) {
    std::ifstream file(arguments[1], std::ios::binary);
    std::vector<uint8_t> json((std::istreambuf_iterator<char>(file)), {});
    auto device = std::make_shared<fe::DeviceProperties>();
    if (auto bad = device->deserialize(json); bad.is_bad()) { std::cout << "device: " << bad.get_message() << "\n"; return 1; }
    struct { const char *name; void (*make)(Graph &, int64_t); int64_t size; } all[] = {
        {"attention", attention, 128}, {"attention", attention, 256}, {"attention backward", attention_backward, 128},
        {"convolution", convolution, 32}, {"convolution", convolution, 64}, {"matmul", matmul, 128}, {"matmul", matmul, 256},
        {"layer norm", layer_norm, 1024}, {"rms norm", rms_norm, 1024},
        {"layer norm backward", layer_norm_backward, 1024}, {"batch norm", batch_norm, 64},
        {"convolution backward", convolution_backward, 32}, {"matmul and reduction", matmul_and_reduction, 128},
        {"attention with dropout", attention_with_dropout, 128}, {"unified attention", unified_attention, 128},
    };
    for (auto &each : all) {
        Graph graph;
        graph.set_io_data_type(fe::DataType_t::HALF).set_intermediate_data_type(fe::DataType_t::FLOAT).set_compute_data_type(fe::DataType_t::FLOAT);
        graph.set_device_properties(device);
        each.make(graph, each.size);
        auto said = graph.validate();
        if (said.is_good()) said = graph.build_operation_graph();
        if (said.is_good()) said = graph.create_execution_plans({fe::HeurMode_t::A});
        if (said.is_good()) said = graph.check_support();
        if (said.is_good()) said = graph.build_plans(fe::BuildPlanPolicy_t::HEURISTICS_CHOICE);
        int64_t workspace = -1;
        if (said.is_good()) said = graph.get_workspace_size(workspace);
        std::string plan;
        if (said.is_good()) graph.get_plan_name(plan);
        std::cout << each.name << " " << each.size << ": " << (said.is_good() ? plan + ", workspace " + std::to_string(workspace) : said.get_message()) << std::endl;
    }
    return 0;
}
