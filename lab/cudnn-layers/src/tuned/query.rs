//! Answers the program's queries of the heuristics.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cudnn_layer_api::Host;
use cudnn_os::cancel::ThreadStateGuard;
use cudnn_store::choices::{Capability, Choices, Device, Ranking, Release};

use super::options::Options;
use super::order::{Kept, Order, Proposal, ProposalUse, choose, filled_places, order, predicted};
use super::proposals::{announced, fill, filled_proposals, proposals};
use super::remembered;
use crate::active::Active;
use crate::bypass::Bypass;
use crate::cudnn::{Cudnn, Descriptor};
use crate::device;
use crate::json::parsed;
use crate::last_error::own_calls;
use crate::program_memory::{copy, write_word};
use crate::shadow;
use crate::shadow::calls::{self, FALLBACK_MODE, HeuristicsQuery};
use crate::shadow::content::Content;
use crate::shadow::elements::{Kind, Name, Raw};
use crate::trial;

pub(super) struct State {
    pub(super) host: Host,
    pub(super) cudnn: Cudnn,
    pub(super) only: bool,
    choices: Choices,
}

impl State {
    pub(super) fn new(host: Host, options: &Options) -> Self {
        let (mut choices, problems) = options.read();
        problems.iter().for_each(|problem| host.error(problem));
        let (release, count) = (release(host), choices.len());
        choices.retain(|ranking| ranking.cudnn == release);
        match choices.len() {
            0 if !problems.is_empty() => {}
            0 => host.warning(&format!("none of {count} rankings is for cuDNN {release}")),
            matching => host.info(&format!("{matching} of {count} rankings are for cuDNN {release}")),
        }
        State { host, cudnn: Cudnn::new(host), only: options.only, choices }
    }
}

fn release(host: Host) -> Release {
    Release::from_number(host.cudnn_version())
}

pub(super) static STATE: Active<State> = Active::new();

/// Returns the program's first descriptors, if cuDNN can fill all of them.
fn first_descriptors(query: &HeuristicsQuery, count: usize) -> Option<Vec<Raw>> {
    /// The number of addresses that can be copied at once.
    const AT_ONCE: usize = 512;
    let mut descriptors: Vec<Raw> = Vec::with_capacity(count);
    for start in (0..count).step_by(AT_ONCE) {
        let len = AT_ONCE.min(count - start);
        let address = query.elements.checked_add((start * size_of::<u64>()) as u64)?;
        let bytes = copy(address, len * size_of::<u64>())?;
        descriptors.extend(bytes.as_chunks().0.iter().map(|word| calls::raw(u64::from_ne_bytes(*word))));
    }
    let mut sorted = descriptors.clone();
    sorted.sort_unstable();
    sorted.dedup();
    let is_new = |descriptor: &Raw| {
        shadow::content(*descriptor).is_some_and(|content| {
            content.kind == Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR
                && !content.is_finalized
                && !content.is_uncertain
                && content.attributes.is_empty()
        })
    };
    (sorted.len() == count && descriptors.iter().all(is_new)).then_some(descriptors)
}

/// Answers a query in the order of a ranking. Returns the number of recommended results, which come first, or `None` if
/// cuDNN should answer the query.
pub(super) fn answer(state: &State, query: &HeuristicsQuery) -> Option<usize> {
    let (found, mut descriptors) = {
        let _guard = ThreadStateGuard::new();
        let mut found = RankedQuery::find(state, query)?.order(state)?;
        found.order.truncate(query.requested);
        let descriptors = first_descriptors(query, found.order.len())?;
        (found, descriptors)
    };
    // SAFETY: the program passes the heuristics to this call, and keeps them alive.
    let heuristics = unsafe { state.cudnn.descriptor(query.heuristics) };
    // SAFETY: the program passes the descriptors to this call, and keeps them alive.
    let proposed = unsafe { fill(&heuristics, &found.order, &descriptors) }.ok()?;
    let _guard = ThreadStateGuard::new();
    let in_order = found.order.iter().take_while(|(_, place)| *place < proposed).count();
    let is_number_expected = in_order == found.expected();
    let filled = if in_order < found.expected() {
        // SAFETY: the program keeps the descriptors alive, and cuDNN has filled this number of places.
        unsafe { fill_gaps(state, &heuristics, &found, proposed, &descriptors) }
    } else {
        in_order
    };
    if !is_number_expected {
        state.host.warning(&format!("cuDNN has returned {in_order} of {} expected engines", found.expected()));
    }
    descriptors.truncate(filled);
    let mut count = filled;
    let mut recommended = found.order.iter().take(filled).take_while(|(used, _)| used.is_recommended()).count();
    if !is_number_expected || !matches!(found.source, Source::Queried) {
        // Reading an engine takes a while, and without one to avoid, only the first one needs to be right.
        let checked = if found.ranking.has_dangerous() { filled } else { filled.min(1) };
        // SAFETY: cuDNN has filled these descriptors.
        let returned = unsafe { filled_proposals(&state.cudnn, descriptors.get(..checked).unwrap_or_default()) };
        if is_number_expected && found.expects(&returned) {
            found.remember();
        } else {
            found.forget();
            recommended = 0;
            // Filled descriptors cannot be filled again, so the results end before an engine that is wrong.
            let is_safe = |proposal: &&Proposal| choose(found.ranking, proposal) < ProposalUse::Dangerous;
            count -= checked - returned.iter().take_while(is_safe).count();
            let text = "cuDNN does not propose the expected engines, so that this query was answered in another order";
            state.host.warning(text);
        }
    }
    // SAFETY: the program passes this address to cuDNN, which writes the number to it.
    unsafe { write_word(query.count, count as u64) };
    Some(recommended)
}

/// Fills the descriptors whose places cuDNN's proposals do not reach with the same proposals, best first, which then
/// occur twice. Returns how many descriptors are filled, up to the first one that is not.
///
/// # Safety
/// The descriptors are live, and cuDNN has filled those at the first `proposed` places.
unsafe fn fill_gaps(
    state: &State,
    heuristics: &Descriptor<'_>,
    found: &FoundOrder<'_>,
    proposed: usize,
    descriptors: &[Raw],
) -> usize {
    let places = found.order.iter().map(|(_, place)| *place).zip(descriptors.iter().copied());
    let (filled, gaps): (Vec<_>, Vec<_>) = places.partition(|(place, _)| *place < proposed);
    let (places, filled): (Vec<usize>, Vec<Raw>) = filled.into_iter().unzip();
    let gaps: Vec<Raw> = gaps.into_iter().map(|(_, descriptor)| descriptor).collect();
    // SAFETY: guaranteed by the caller.
    let returned = unsafe { filled_proposals(&state.cudnn, &filled) };
    let mut best: Order = returned.iter().map(|proposal| choose(found.ranking, proposal)).zip(places).collect();
    best.sort_unstable();
    best.truncate(gaps.len());
    // SAFETY: guaranteed by the caller.
    let fill_again = || trial::run_in_other_order(|| unsafe { fill(heuristics, &best, &gaps) });
    let reached = own_calls(&state.cudnn, fill_again).unwrap_or(0);
    let count = best.iter().take_while(|(_, place)| *place < reached).count();
    let empty = gaps.get(count..).unwrap_or_default();
    descriptors.iter().take_while(|descriptor| !empty.contains(descriptor)).count()
}

struct FoundOrder<'a> {
    ranking: &'a Ranking,
    order: Order,
    source: Source,
}

/// How the order was found.
enum Source {
    /// cuDNN has just returned the proposals.
    Queried,
    /// It returned them for an earlier query.
    Remembered,
    /// The file lists this number of proposals. The order has a place for each one that cuDNN announces.
    Predicted { len: usize, key: usize },
}

/// Set if cuDNN has not proposed what a file lists.
static IS_UNPREDICTABLE: AtomicBool = AtomicBool::new(false);

impl FoundOrder<'_> {
    /// Returns the number of results.
    fn expected(&self) -> usize {
        if let Source::Predicted { len, .. } = self.source { len } else { self.order.len() }
    }

    /// Returns whether these are the first proposals in this order, as far as the ranking distinguishes them.
    fn expects(&self, proposals: &[Proposal]) -> bool {
        let expected = self.order.iter().take(proposals.len()).map(|(used, _)| *used);
        expected.eq(proposals.iter().map(|proposal| choose(self.ranking, proposal)))
    }

    fn remember(self) {
        if let Source::Predicted { len, key } = self.source {
            let announced = self.order.len();
            remembered::insert(key, announced, Some(self.order.into_iter().take(len).collect()));
        }
    }

    fn forget(&self) {
        match self.source {
            Source::Predicted { .. } => IS_UNPREDICTABLE.store(true, Ordering::Relaxed),
            Source::Queried | Source::Remembered => remembered::stop(),
        }
    }
}

/// A query for a graph that the file ranks.
struct RankedQuery<'a> {
    ranking: &'a Ranking,
    heuristics: Descriptor<'a>,
    mode: Option<i64>,
    requested: usize,
    /// The number of proposals that cuDNN announces.
    announced: usize,
    /// The key of the remembered order.
    key: usize,
}

impl<'a> RankedQuery<'a> {
    fn find(state: &'a State, query: &HeuristicsQuery) -> Option<Self> {
        let content = shadow::content(query.heuristics)?;
        let is_usual = content.kind == Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR
            && content.is_finalized
            && !content.is_uncertain
            && content.attributes.iter().all(|attribute| USUAL.contains(&attribute.name));
        let graph = shadow::graph_of(&content).filter(|graph| is_usual && graph.is_finalized)?;
        // After a missed call, the graph may have changed.
        static BYPASS: Bypass = Bypass::new("engines are no longer tuned");
        if !BYPASS.has_seen_all(state.host) || state.choices.is_empty() {
            return None;
        }
        let device = device::description(&state.cudnn, &content)?;
        let ranking = find_ranking(state, &device, graph)?;
        // SAFETY: the program passes the heuristics to this call.
        let heuristics = unsafe { state.cudnn.descriptor(query.heuristics) };
        let announced = announced(&heuristics).ok()?;
        let key = remembered::key(&content, &ranking.graph, &device);
        let mode = content.number(Name::CUDNN_ATTR_ENGINEHEUR_MODE);
        Some(RankedQuery { ranking, heuristics, mode, requested: query.requested, announced, key })
    }

    /// Returns the order of the results, or `None` if cuDNN's order stays.
    fn order(&self, state: &State) -> Option<FoundOrder<'a>> {
        let RankedQuery { ranking, announced, key, .. } = *self;
        if let Some(order) = remembered::find(key, announced) {
            return Some(FoundOrder { ranking, order: order?, source: Source::Remembered });
        }
        // The first proposal is much cheaper than all.
        let first = self.proposed(announced.min(1))?;
        // In another mode than that of the ranking, the heuristics may choose another engine.
        if !state.only && ranking.confirms_heuristics() && first == [ProposalUse::Recommended(0)] {
            remembered::insert(key, announced, None);
            return None;
        }
        let kept = match self.mode {
            _ if !state.only => Kept::All,
            Some(FALLBACK_MODE) => Kept::Best,
            _ => Kept::BestAndDefault,
        };
        let (source, order) = match self.listed(&first) {
            Some((len, uses)) if self.may_predict(kept) => (Source::Predicted { len, key }, order(ranking, uses, kept)),
            listed => (Source::Queried, self.queried(listed.map(|(_, uses)| uses), kept)?),
        };
        let text = match &order {
            Some(_) => "changes the order of the proposals",
            None => "confirms the order of the proposals",
        };
        state.host.info(&format!("the ranking of graph {} {text}: {}", ranking.graph, ranking.label));
        // An order that stays is never checked.
        if order.is_none() && !ranking.has_dangerous() || order.is_some() && matches!(source, Source::Queried) {
            remembered::insert(key, announced, order.clone());
        }
        Some(FoundOrder { ranking, order: order?, source })
    }

    /// Returns how the first `count` proposals of cuDNN are used.
    fn proposed(&self, count: usize) -> Option<Vec<ProposalUse>> {
        let proposals = proposals(&self.heuristics, count).ok()?;
        Some(proposals.iter().map(|proposal| choose(self.ranking, proposal)).collect())
    }

    /// Returns the number of proposals that the file lists and all uses, if they begin with these.
    fn listed(&self, first: &[ProposalUse]) -> Option<(usize, Vec<ProposalUse>)> {
        let listed = predicted(self.ranking, self.mode?, self.announced).filter(|(_, uses)| uses.starts_with(first));
        listed.filter(|_| !IS_UNPREDICTABLE.load(Ordering::Relaxed))
    }

    /// Returns whether a wrong prediction would change only the order, because the program gets all proposals.
    fn may_predict(&self, kept: Kept) -> bool {
        kept == Kept::All && !self.ranking.has_dangerous() && self.requested >= self.announced
    }

    /// Returns the order of cuDNN's proposals. Queries only those that are kept, if the file lists the same.
    fn queried(&self, listed: Option<Vec<ProposalUse>>, kept: Kept) -> Option<Option<Order>> {
        let short = listed.filter(|_| kept != Kept::All).and_then(|uses| {
            let order = order(self.ranking, uses.clone(), kept)?;
            let filled = filled_places(&order);
            (uses.get(..filled) == Some(&self.proposed(filled)?)).then_some(order)
        });
        match short {
            Some(order) => Some(Some(order)),
            None => Some(order(self.ranking, self.proposed(self.announced)?, kept)),
        }
    }
}

/// The attributes of queries for which rankings are valid. Others limit the device.
const USUAL: [Name; 3] = [
    Name::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
    Name::CUDNN_ATTR_ENGINEHEUR_MODE,
    Name::CUDNN_ATTR_ENGINEHEUR_DEVICEPROP,
];

/// Returns the ranking of a graph on the device with this description.
fn find_ranking<'a>(state: &'a State, device: &[u8], graph: &Arc<Content>) -> Option<&'a Ranking> {
    let (choices, device) = (&state.choices, model(device)?);
    if !choices.iter().any(|ranking| ranking.device == device) {
        static IS_REPORTED: AtomicBool = AtomicBool::new(false);
        if !IS_REPORTED.swap(true, Ordering::Relaxed) {
            let Device { name, compute_capability } = &device;
            state.host.warning(&format!("no ranking is for {name} (compute capability {compute_capability})"));
        }
        return None;
    }
    let id = shadow::graph(graph).ok()?.id();
    let ranking = choices.find(release(state.host), &device, &id);
    if ranking.is_none() {
        state.host.info(&format!("no ranking is for graph {id}: {}", shadow::describe(graph).unwrap_or_default()));
    }
    ranking
}

fn model(description: &[u8]) -> Option<Device> {
    let description: serde_json::Value = parsed(description)?;
    let name = description.get("deviceName")?.as_str()?.to_owned();
    let tenths = device::compute_capability(&description)?;
    Some(Device { name, compute_capability: Capability::from_tenths(tenths) })
}

/// Marks the recommended engines at the front, which labels of all layers show.
pub(super) fn mark(query: &HeuristicsQuery, recommended: usize) {
    let facts = shadow::content(query.heuristics).and_then(|content| content.facts.clone());
    let results = facts.map(|facts| facts.children(Name::CUDNN_ATTR_ENGINEHEUR_RESULTS)).unwrap_or_default();
    results.iter().take(recommended).for_each(|result| result.set_tuned());
}
