// The status page of a job: reads /api/live, and shows what it says, by what draw.js has. Old
// numbers are never shown as new: if nothing is heard, a bar says so.
'use strict';

const QUIET = 8000;        // Nothing was heard for so long (ms): the stream is cut off.
const AGAIN = [500, 1000, 2000, 4000];   // Between two attempts.
const POINTS_EACH = 2;     // Round points are asked for so often (s).
const HOUR = 3600;
const ROWS = 64;           // Of more nodes, sites or links the worst are shown.
const EVENTS = 200;        // Shown; 4,096 are kept.
const KEPT = 4096;

const seen = {
  status: null, events: [], own: [], rounds: [], life: null, since: 0,
  heard: 0, first: null, cut: null, ended: false,
};
const shownAll = new Set();

// ---- parts of the page ----------------------------------------------------------------------

function tiles(status) {
  const known = isNumber(status.age);
  const age = known ? status.age : (seen.heard - seen.first) / 1000;
  const all = [
    ['phase', status.phase, 'state'],
    [known ? 'age' : 'watched for', lasted(age)],
    ['policy', status.elastic ? String(status.epoch) : 'keys do not move'],
    ['eta', eta(status.eta)],
    ['round, measured', seconds(status.measured)],
  ];
  if (isNumber(status.iteration)) all.push(['iteration', seconds(status.iteration)]);
  const fresh = parent => {
    const tile = make(parent, 'div');
    make(tile, 'dt');
    make(make(tile, 'dd'), 'span');
  };
  const boxes = children(at('tiles'), all.length, fresh);
  all.forEach(([label, text, kind], i) => {
    const [term, value] = boxes[i].children;
    say(term, label);
    name(value, text.length > 10 ? 'long' : '');
    if (kind === 'state') word(value.firstChild, text);
    else { say(value.firstChild, text); name(value.firstChild, ''); }
  });
}

function waits(status) {
  let texts = list(status.waits).map(String);
  if (!texts.length) texts = list(status.waiting).map(wait => String(wait.what));
  const none = texts.length === 0;
  lines(at('waits').querySelector('ul'), none ? ['nobody waits for long'] : texts,
    none ? 'none' : '');
}

const BADNESS = {dead: 0, draining: 1, joining: 2, registered: 3, released: 5};

// Above 64: the worst, until somebody asks for all.
function some(section, items, worse) {
  const button = section.querySelector('.all');
  if (items.length <= ROWS || shownAll.has(section.id)) {
    if (button) button.remove();
    return items;
  }
  if (!button) {
    make(section, 'button', 'all').addEventListener('click', () => {
      shownAll.add(section.id);
      show();
    });
  }
  say(section.querySelector('.all'), `show all ${items.length}, not only the worst ${ROWS}`);
  return [...items].sort(worse).slice(0, ROWS);
}

const badness = node => BADNESS[node.state] ?? 4;
const title = node => (node.state === 'registered' ? node.role : `${node.role} ${node.rank}`);

const ABOUT_NODE = [
  {head: 'node', of: title, kind: 'name'},
  {head: 'state', of: node => node.state, more: (span, node, text) => word(span, text)},
  {head: 'address', of: node => node.address, kind: 'quiet'},
];

function count(section, nodes) {
  const live = nodes.filter(node => TONES[node.state] === 'good').length;
  const rest = nodes.length - live;
  say(section.querySelector('small'),
    nodes.length ? `${live} live${rest ? `, ${rest} not` : ''}` : '');
}

function servers(status) {
  const section = at('servers');
  const all = status.nodes.filter(node => node.role === 'server');
  const total = all.reduce((sum, node) => sum + node.bytes, 0) || 1;
  const copies = all.some(node => node.copies !== undefined);
  const columns = [
    ...ABOUT_NODE,
    {
      head: 'share', kind: 'share', of: node => percent(node.bytes / total),
      more: (span, node, text) => {
        const [bar, label] = children(span, 2, parent => make(parent, 'span'));
        name(bar, 'bar');
        const fill = children(bar, 1, parent => make(parent, 'i'))[0];
        fill.style.width = `${100 * node.bytes / total}%`;
        say(label, text);
      },
    },
    {head: 'values', kind: 'number', of: node => bytes(node.bytes)},
    {head: 'pieces', kind: 'number', of: node => String(node.pieces)},
    {head: 'state of optimizer', kind: 'number', of: node => bytes(node.state_bytes)},
  ];
  if (copies) columns.push({head: 'copies at', of: node => String(node.copies ?? '')});
  count(section, all);
  table(section.querySelector('table'), columns,
    some(section, all, (a, b) => badness(a) - badness(b) || b.bytes - a.bytes),
    status.servers === 0 ? 'a job without servers' : 'no server is here yet');
}

function workers(status) {
  const section = at('workers');
  const all = status.nodes.filter(node => node.role === 'worker');
  const timed = all.some(node => isNumber(node.computes));
  const columns = [...ABOUT_NODE];
  if (timed) {
    columns.push(
      {head: 'computes', kind: 'number',
        of: node => (isNumber(node.computes) ? seconds(node.computes) : '')},
      {head: 'waits', kind: 'number',
        of: node => (isNumber(node.waits) ? seconds(node.waits) : '')});
  }
  count(section, all);
  table(section.querySelector('table'), columns,
    some(section, all, (a, b) => badness(a) - badness(b) || (b.computes || 0) - (a.computes || 0)),
    'no worker is here yet');
}

function hints(status) {
  const texts = [];
  if (status.limit) texts.push(`limit: ${status.limit}`);
  if (status.no_plan) texts.push(`nothing is moved: ${status.no_plan}`);
  for (const text of [status.advice, status.exchange_advice]) {
    if (text) texts.push(`advice: ${text}`);
  }
  if (status.uncopied > 0) texts.push(`${status.uncopied} pieces have no copy`);
  lines(at('hints'), texts);
}

function sessions(status) {
  const all = list(status.sessions);
  at('sessions').hidden = all.length === 0;
  // Beside the workers, if there are some.
  name(at('workers'), all.length ? '' : 'wide');
  const dealt = one => one.rule === 'dealt';
  table(at('sessions').querySelector('table'), [
    {head: 'session', kind: 'name', of: one => one.name},
    {head: 'rule', of: one => one.rule},
    {head: 'workers', kind: 'number', of: one => `${one.present} of ${one.members}`},
    {head: 'iteration', kind: 'number',
      of: one => (dealt(one) ? `epoch ${one.epoch}, ${part(one.dealt)}` : String(one.iteration))},
    {head: 'samples', kind: 'number',
      of: one => (dealt(one) ? '' : `${one.smallest} to ${one.largest}`)},
    {head: 'times differ', kind: 'number', of: one => part(one.spread)},
    {head: 'gain', kind: 'number',
      of: one => (isNumber(one.gain) ? `${one.gain.toFixed(2)} times` : '')},
  ], all);
}

function exchanges(status) {
  const workersOf = one => list(one.workers).map(worker => ({one, worker}));
  const all = list(status.exchanges).flatMap(workersOf);
  const section = at('exchanges');
  section.hidden = !status.exchange;
  say(section.querySelector('small'), status.exchange || '');
  table(section.querySelector('table'), [
    {head: 'kvstore', of: ({one}) => String(one.customer)},
    {head: 'worker', kind: 'name', of: ({worker}) => nameOf(worker.id)},
    {head: 'steps/s', kind: 'number',
      of: ({worker}) => (isNumber(worker.steps) ? worker.steps.toFixed(2) : '')},
    {head: 'computing', kind: 'number', of: ({worker}) => part(worker.computing)},
    {head: 'held', kind: 'number', of: ({worker}) => part(worker.held)},
    {head: 'rounds', kind: 'number', of: ({one}) => String(one.rounds)},
    {head: 'is', of: ({worker}) => worker.stage || (worker.is_slowest ? 'slowest' : 'training')},
  ], all, 'no exchange has begun');
}

// A method may have a part of its own: {title, rows}, a row is a text or a list of texts.
function sections(status) {
  const all = list(status.sections);
  const boxes = children(at('more'), all.length, parent => {
    const box = make(parent, 'section');
    make(box, 'h2');
    make(box, 'ul', 'lines');
  });
  all.forEach((one, i) => {
    say(boxes[i].children[0], String(one.title));
    lines(boxes[i].children[1],
      list(one.rows).map(row => (Array.isArray(row) ? row.join('  ') : String(row))));
  });
}

// ---- rounds ---------------------------------------------------------------------------------

const KINDS = [['measured', 'measured'], ['predicted', 'predicted'], ['bound', 'T*']];

// The points that the node keeps (`/api/rounds`); until it has some, what was seen of the status.
// An answer that was under way when another scheduler came is not taken.
async function askForPoints() {
  const life = seen.life;
  const told = seen.rounds.filter(point => !point.own);
  const after = told.length ? Math.round(1000 * told[told.length - 1].at) : 0;
  const reply = await fetch(`/api/rounds?after=${after}`, {cache: 'no-store'});
  const all = reply.ok ? await reply.json() : [];
  if (!all.length || life !== seen.life) return;
  seen.rounds = told.concat(all);
  if (seen.status) show();
}

function points(status) {
  if (isNumber(status.measured) && seen.rounds.every(point => point.own)) {
    const {measured, predicted, bound} = status;
    seen.rounds.push({at: seen.heard / 1000, measured, predicted, bound, own: true});
  }
  const newest = seen.rounds.length ? seen.rounds[seen.rounds.length - 1].at : 0;
  seen.rounds = seen.rounds.filter(point => newest - point.at <= HOUR).slice(-2 * HOUR);
  return seen.rounds;
}

// A round number that is not below that.
function above(value) {
  const unit = 10 ** Math.floor(Math.log10(value));
  return unit * [1, 1.5, 2, 3, 5, 7.5, 10].find(step => step * unit >= value * 0.999);
}

function chart(all, status) {
  const box = at('chart');
  const old = box.firstElementChild;
  const legend = at('legend');
  const entries = children(legend, KINDS.length, parent => {
    const entry = make(parent, 'div');
    const svg = draw(entry, 'svg', {viewBox: '0 0 32 10', 'aria-hidden': 'true'});
    draw(svg, 'line', {x1: 0, x2: 32, y1: 5, y2: 5});
    make(entry, 'dt');
    make(entry, 'dd');
  });
  KINDS.forEach(([kind, label], i) => {
    const [svg, term, value] = entries[i].children;
    name(svg.firstChild, `line ${kind}`);
    say(term, label);
    say(value, seconds(status[kind]));
  });
  if (all.length < 2) {
    if (old) old.remove();
    say(at('span'), status.exchange ? '' : 'none was measured yet');
    return;
  }
  const [width, height, left, bottom, top] = [Math.max(box.clientWidth, 280), 190, 58, 22, 8];
  const newest = all[all.length - 1].at;
  const span = Math.max(60, Math.min(HOUR, newest - all[0].at));
  const values = all.flatMap(point => KINDS.map(([kind]) => point[kind])).filter(isNumber);
  const most = above(Math.max(...values, 1e-6));
  const x = point => left + (width - left - 8) * (1 - (newest - point.at) / span);
  const y = value => height - bottom - (height - bottom - top) * value / most;
  const svg = document.createElementNS(SVG, 'svg');
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
  svg.setAttribute('role', 'img');
  svg.setAttribute('aria-label', 'Round times of the last hour; the numbers are below');
  for (const fraction of [0, 0.5, 1]) {
    const row = y(fraction * most);
    draw(svg, 'line', {class: 'grid', x1: left, x2: width - 8, y1: row, y2: row});
    const label = most < 0.1 ? `${Number((1000 * fraction * most).toPrecision(2))} ms`
      : `${Number((fraction * most).toPrecision(2))} s`;
    draw(svg, 'text', {x: left - 8, y: row + 4, 'text-anchor': 'end'}, label);
  }
  for (const fraction of [0, 0.5, 1]) {
    const ago = lasted(span * (1 - fraction));
    draw(svg, 'text', {
      x: left + (width - left - 8) * fraction, y: height - 5,
      'text-anchor': ['start', 'middle', 'end'][2 * fraction],
    }, fraction === 1 ? 'now' : `${ago} ago`);
  }
  const step = Math.ceil(all.length / 800);
  for (const [kind] of [...KINDS].reverse()) {
    let path = '';
    let pen = 'M';
    all.forEach((point, i) => {
      if (i % step && i !== all.length - 1) return;
      if (!isNumber(point[kind])) { pen = 'M'; return; }
      path += `${pen}${x(point).toFixed(1)} ${y(point[kind]).toFixed(1)}`;
      pen = 'L';
    });
    if (path) draw(svg, 'path', {class: `line ${kind}`, d: path});
  }
  if (old) old.replaceWith(svg);
  else box.append(svg);
  say(at('span'), `the last ${lasted(span)}${all[0].own ? ', as this page saw them' : ''}`);
}

// ---- links and trees ------------------------------------------------------------------------

// Both directions of each link: [there, back].
function pairs(links) {
  const found = new Map();
  for (const link of links) {
    const back = found.get(JSON.stringify([link.to, link.from]));
    if (back) back[1] = link;
    else found.set(JSON.stringify([link.from, link.to]), [link]);
  }
  return [...found.values()];
}

const rate = link => {
  if (!link) return '–';
  if (link.mbit === 0) return 'cut';
  return link.measured ? link.mbit.toFixed(1) : `(${link.mbit.toFixed(1)})`;
};
const isCut = pair => pair.some(link => link.mbit === 0);

function picture(all, sites, width) {
  const svg = document.createElementNS(SVG, 'svg');
  const height = Math.min(560, 240 + 14 * sites.length);
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
  svg.setAttribute('role', 'img');
  svg.setAttribute('aria-label', 'Sites and the links between them; the table below has the rates');
  // Room for names.
  const aside = width < 500 ? 75 : 130;
  const place = new Map(sites.map((site, i) => {
    const angle = 2 * Math.PI * i / sites.length - Math.PI / 2;
    const [dx, dy] = [Math.cos(angle), Math.sin(angle)];
    const [x, y] = [width / 2 + dx * (width / 2 - aside), height / 2 + dy * (height / 2 - 40)];
    return [site, {x, y, dx, dy}];
  }));
  const most = width < 500 ? 10 : 18;
  const labels = [];
  for (const pair of all) {
    const [from, to] = [place.get(pair[0].from), place.get(pair[0].to)];
    const kind = isCut(pair) ? 'link cut' : pair.some(link => link.measured) ? 'link' : 'link told';
    draw(svg, 'line', {class: kind, x1: from.x, y1: from.y, x2: to.x, y2: to.y});
    labels.push([pair, from, to]);
  }
  // Few enough to be read.
  for (const [pair, from, to] of all.length <= 24 ? labels : []) {
    const [x, y] = [from.x + 0.36 * (to.x - from.x), from.y + 0.36 * (to.y - from.y) - 5];
    draw(svg, 'text', {x, y, 'text-anchor': 'middle', class: isCut(pair) ? 'cut' : ''},
      pair.map(rate).join(' / '));
  }
  for (const [site, {x, y, dx, dy}] of place) {
    draw(svg, 'circle', {class: 'site-dot', cx: x, cy: y, r: 7});
    const anchor = dx > 0.3 ? 'start' : dx < -0.3 ? 'end' : 'middle';
    const [right, down] = anchor === 'middle' ? [0, 20 * dy] : [13 * dx, 12 * dy];
    draw(svg, 'text', {class: 'site', x: x + right, y: y + down + 4, 'text-anchor': anchor},
      site.length > most ? `${site.slice(0, most - 1)}…` : site);
  }
  return svg;
}

function network(status) {
  const section = at('network');
  const trees = status.trees;
  const links = trees ? list(trees.links) : list(status.links);
  section.hidden = !trees && links.length === 0;
  if (section.hidden) return;
  const all = pairs(links);
  const sites = [...new Set(links.flatMap(link => [link.from, link.to]))].sort();
  const few = all.length > 0 && sites.length <= ROWS;
  const wide = Math.max(300, Math.min(736, at('picture').clientWidth));
  const look = JSON.stringify([wide, links]);
  if (at('picture').dataset.of !== look) {
    at('picture').dataset.of = look;
    at('picture').replaceChildren(...(few ? [picture(all, sites, wide)] : []));
  }
  let words = 'Mbit/s, there / back; in brackets: as PSLITE_LINKS says';
  if (trees) {
    words = trees.why ? `${trees.topology}, but rounds go straight: ${trees.why}`
      : `${trees.topology}, overlay ${trees.overlay}; ${words}`;
  }
  say(section.querySelector('small'), words);
  const least = pair => Math.min(...pair.map(link => link.mbit));
  const worst = [...all].sort((a, b) => least(a) - least(b)).slice(0, ROWS);
  table(at('links'), [
    {head: 'link', kind: 'name', of: ([link]) => `${link.from} – ${link.to}`},
    {head: 'there, Mbit/s', kind: 'number', of: ([link]) => rate(link)},
    {head: 'back, Mbit/s', kind: 'number', of: ([, link]) => rate(link)},
    {head: 'state', of: pair => (isCut(pair) ? 'cut' : 'carries'),
      more: (span, pair, text) => { word(span, text); if (!isCut(pair)) name(span, 'plain'); }},
  ], few && all.length <= 24 && !all.some(isCut) ? [] : worst);
  table(at('trees'), [
    {head: 'tree', kind: 'name', of: tree => percent(tree.share)},
    {head: 'root', of: tree => tree.root},
    {head: 'sums go up', of: tree => tree.up},
    {head: 'values go down', of: tree => tree.down},
  ], trees ? list(trees.trees) : []);
}

// The node of that id, as people name it.
function nameOf(id) {
  if (!isNumber(id)) return '';
  const node = list(seen.status && seen.status.nodes).find(one => one.id === id);
  return node ? title(node) : `id ${id}`;
}

// ---- what happened --------------------------------------------------------------------------

// Seconds of the day if they are those of everybody's clock; else since the job began.
function when(event) {
  const time = event.time ?? event.at;
  if (!isNumber(time)) return '';
  if (time > 1e12) return clock(time);
  return time > 1e9 ? clock(1000 * time) : `+${lasted(time)}`;
}

// A node that tells no events: what differs between two states of the job is one.
function differences(before, after) {
  const note = (kind, text) => seen.own.push({at: seen.heard, kind, text});
  if (!before) return;
  if (before.phase !== after.phase) note('phase', `the job is ${after.phase}`);
  if (before.epoch !== after.epoch) note('policy', `policy ${after.epoch} is in force`);
  if (after.note && before.note !== after.note) note('note', after.note);
  const states = new Map(before.nodes.map(node => [node.address, node.state]));
  for (const node of after.nodes) {
    const state = states.get(node.address);
    if (state !== node.state) note('node', `${title(node)} is ${node.state}`);
  }
  seen.own = seen.own.slice(-KEPT);
}

function events() {
  const told = seen.events.length > 0;
  const all = (told ? seen.events : seen.own).slice(-EVENTS).reverse();
  const nodes = all.some(event => event.node !== undefined && event.node !== null);
  const columns = [
    {head: 'when', kind: 'when', of: when},
    {head: 'kind', kind: 'kind', of: event => String(event.kind ?? '')},
    {head: 'what', of: event => String(event.text ?? '')},
  ];
  if (nodes) columns.splice(2, 0, {head: 'node', of: event => nameOf(event.node)});
  say(at('events').querySelector('small'),
    told ? 'newest first' : 'newest first, as this page saw it');
  table(at('events').querySelector('table'), columns, all, 'nothing yet');
}

// ---- together -------------------------------------------------------------------------------

function freshness() {
  const lost = seen.cut !== null;
  document.body.classList.toggle('old', lost);
  at('cut').hidden = !lost;
  word(at('live'), lost ? 'cut off' : 'live');
  name(at('live'), `word ${lost ? 'bad' : 'good'}`);
  say(at('of'), seen.heard ? `as of ${clock(seen.heard)}` : '');
  if (!lost) return;
  const then = seen.heard ? `What stands below is of ${clock(seen.heard)}. ` : '';
  say(at('cut'), seen.ended ? `The scheduler has ended. ${then}`
    : `Cut off from the scheduler (${seen.cut}). ${then}Trying again.`);
}

function show() {
  const status = seen.status;
  freshness();
  if (!status) return;
  say(at('scheduler'), `job at ${status.scheduler}`);
  document.title = `${status.phase} – pslite ${status.scheduler}`;
  at('note').hidden = !status.note;
  say(at('note'), status.note || '');
  tiles(status);
  waits(status);
  hints(status);
  chart(seen.rounds, status);
  servers(status);
  workers(status);
  network(status);
  sessions(status);
  exchanges(status);
  sections(status);
  events();
  document.body.dataset.shown = 'yes';
}

function take(kind, data) {
  seen.heard = Date.now();
  if (kind === 'status') {
    seen.first ??= seen.heard;
    differences(seen.status, data);
    seen.status = data;
    points(data);
  } else if (kind === 'event') {
    if (isNumber(data.number)) seen.since = Math.max(seen.since, data.number);
    seen.events.push(data);
    if (seen.events.length > KEPT) seen.events.splice(0, seen.events.length - KEPT);
  } else if (kind === 'end') {
    seen.ended = true;
  } else if (kind === 'life' && seen.life !== data.life) {
    // Another scheduler counts anew.
    const again = seen.life !== null && seen.since > 0;
    Object.assign(seen, {life: data.life, since: 0, events: [], rounds: [], first: null});
    if (again) throw new Error('another scheduler answers');
    askForPoints().catch(() => {});
  }
}

// One message of the stream: its event and its data.
function message(text) {
  let kind = 'message';
  const data = [];
  for (const line of text.split('\n')) {
    if (line.startsWith('event: ')) kind = line.slice(7);
    else if (line.startsWith('data: ')) data.push(line.slice(6));
  }
  if (data.length) take(kind, JSON.parse(data.join('\n')));
}

async function follow() {
  const stop = new AbortController();
  let last = Date.now();
  let ticks = 0;
  const watch = setInterval(() => {
    if (Date.now() - last > QUIET) stop.abort(new Error('nothing is heard'));
    // What is not there now comes with the next question; the stream says if the node is gone.
    if (ticks++ % POINTS_EACH === 0 && seen.life !== null) askForPoints().catch(() => {});
  }, 1000);
  try {
    const reply = await fetch(`/api/live?since=${seen.since}`,
      {cache: 'no-store', signal: stop.signal});
    if (!reply.ok) throw new Error((await reply.text()).trim() || `HTTP ${reply.status}`);
    const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';
    for (;;) {
      const {value, done} = await reader.read();
      if (done) throw new Error('the connection ended');
      last = seen.heard = Date.now();
      const all = (rest + value).split('\n\n');
      rest = all.pop();
      seen.cut = null;
      seen.ended = false;
      all.forEach(message);
      show();
    }
  } finally {
    clearInterval(watch);
    stop.abort();
  }
}

async function main() {
  let failed = 0;
  for (;;) {
    const heard = seen.heard;
    try {
      await follow();
    } catch (error) {
      seen.cut = error.message || String(error);
    }
    failed = seen.heard > heard ? 0 : failed + 1;
    show();
    await new Promise(resume => setTimeout(resume, AGAIN[Math.min(failed, AGAIN.length - 1)]));
  }
}

let width = 0;
addEventListener('resize', () => {
  if (innerWidth !== width && seen.status) show();
  width = innerWidth;
});
main();
