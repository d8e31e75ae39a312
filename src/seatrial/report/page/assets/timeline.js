// Nodes and workloads over time. Bars become segments in lanes; where lanes are thinner than a pixel their coverage is summed up
// pixel by pixel, so that a hundred thousand pods are drawn as fast as a hundred.

const [WAITING, HELD, RUNS, ENDING] = [0, 1, 2, 3];
const KINDS_OF_BARS = [['--waiting', 'waits'], ['--held', 'holds its node, does not run'], ['--running', 'runs'], ['--ending', 'finished, not complete yet']];

function segmentsOf(list) {
  // Ordered by lane, with the place where each lane begins.
  const lanes = list.lanes, starts = new Int32Array(lanes + 1), count = list.lane.length;
  for (let n = 0; n < count; n++) starts[list.lane[n] + 1]++;
  for (let n = 0; n < lanes; n++) starts[n + 1] += starts[n];
  const next = starts.slice(), order = new Int32Array(count);
  for (let n = 0; n < count; n++) order[next[list.lane[n]]++] = n;
  const pick = (column, Type) => { const made = new Type(count); for (let n = 0; n < count; n++) made[n] = column[order[n]]; return made; };
  return { starts, lanes, from: pick(list.from, Float32Array), to: pick(list.to, Float32Array), kind: pick(list.kind, Uint8Array), owner: pick(list.owner, Int32Array), lane: pick(list.lane, Int32Array), pod: pick(list.pod, Int32Array) };
}

// Overlapping pods of a node get separate lanes; free lanes are reused.
function nodeLanes(c, unit, end) {
  const pods = c.pod_node.length, nodes = c.nodes.length, list = { lane: [], from: [], to: [], kind: [], owner: [], pod: [] };
  const rows = [];
  let first = 0, base = 0;
  for (let node = 0; node < nodes; node++) {
    let last = first;
    while (last < pods && c.pod_node[last] === node) last++;
    const ends = [], free = [];
    for (let n = first; n < last; n++) ends.push(n);
    const over = (n) => (c.pod_ended[n] < 0 ? Infinity : c.pod_ended[n]);
    ends.sort((a, b) => over(a) - over(b));
    const lane = new Map();
    let gone = 0, used = 0;
    for (let n = first; n < last; n++) {
      while (gone < ends.length && over(ends[gone]) <= c.pod_bound[n] && lane.has(ends[gone])) free.push(lane.get(ends[gone++]));
      const at = free.length ? free.pop() : used++;
      lane.set(n, at);
      const bound = c.pod_bound[n] * unit, ended = c.pod_ended[n] < 0 ? end : c.pod_ended[n] * unit;
      const owner = c.pod_workload[n], whole = c.running[owner] < 0 ? Infinity : c.running[owner] * unit;
      // A gang runs when all its pods run: until then its containers only hold nodes.
      const started = Math.min(Math.max(c.pod_started[n] < 0 ? Infinity : c.pod_started[n] * unit, c.gang[owner] ? whole : 0), ended);
      const add = (from, to, kind) => { if (to > from) { list.lane.push(base + at); list.from.push(from); list.to.push(to); list.kind.push(kind); list.owner.push(owner); list.pod.push(n); } };
      add(bound, started, HELD);
      add(started, ended, RUNS);
    }
    rows.push({ name: c.nodes[node], first: base, lanes: Math.max(used, 1) });
    base += Math.max(used, 1);
    first = last;
  }
  return { ...segmentsOf({ ...list, lanes: base }), rows };
}

function workloadLanes(c, unit, end) {
  const count = c.names.length, list = { lane: [], from: [], to: [], kind: [], owner: [], pod: [] };
  const bound = new Float64Array(count).fill(Infinity);
  for (let n = 0; n < c.pod_workload.length; n++) if (!c.pod_lost[n]) bound[c.pod_workload[n]] = Math.min(bound[c.pod_workload[n]], c.pod_bound[n] * unit);
  const at = (value) => (value < 0 ? Infinity : value * unit);
  for (let n = 0; n < count; n++) {
    const over = Math.min(at(c.gone[n]), end);
    const marks = [at(c.submitted[n]), bound[n], at(c.running[n]), at(c.finished[n]), Math.min(at(c.completed[n]), over)];
    for (let kind = 3; kind >= 0; kind--) marks[kind] = Math.min(marks[kind], marks[kind + 1]);
    for (let kind = 0; kind < 4; kind++) if (marks[kind + 1] > marks[kind]) {
      list.lane.push(n); list.from.push(marks[kind]); list.to.push(marks[kind + 1]); list.kind.push(kind); list.owner.push(n); list.pod.push(-1);
    }
  }
  return { ...segmentsOf({ ...list, lanes: Math.max(count, 1) }), rows: c.names.map((name, n) => ({ name, first: n, lanes: 1 })) };
}

charts.timeline = async (figure, data) => {
  const plot = figure.querySelector('.plot'), controls = figure.querySelector('.controls');
  const overviewBox = el('div'), mainBox = el('div');
  const keys = el('div', { class: 'legend' });
  plot.append(keys, overviewBox, mainBox);
  const view = { from: 0, to: 1, top: 0, lane: 1 };
  let chosen = data.chosen, byNode = true, trial, columns, world, hover = -1, size = { width: 0, height: 0, gutter: 0 }, wanted = false, found = -1, sheet = null, image, sums;

  async function load() {
    trial = data.trials[chosen];
    columns = await unpack(trial.packed);
    arrange();
  }
  function arrange() {
    world = (byNode ? nodeLanes : workloadLanes)(columns, trial.unit, trial.end);
    const clogged = new Set(trial.clog ? (byNode ? trial.clog.nodes : trial.clog.workloads) : []);
    world.rows.forEach((row) => { row.clogged = clogged.has(row.name); });
    world.longest = world.rows.reduce((most, row) => Math.max(most, row.name.length), 0);
    world.density = null;
    hover = -1;
    reset();
  }
  function measure() {
    const width = mainBox.clientWidth || plot.clientWidth;
    const height = clamp(world.lanes * 20 + 30, 150, innerWidth < 640 ? 380 : 520);
    size = { width, height, gutter: width < 560 ? 74 : clamp(world.longest * 7 + 16, 128, 200), foot: 24, top: 6 };
  }
  const room = () => size.height - size.foot - size.top;
  const least = () => Math.min(room() / world.lanes, 20);
  function reset() {
    measure();
    Object.assign(view, { from: 0, to: trial.end, top: 0, lane: least() });
    draw();
  }
  function keep() {
    const span = clamp(view.to - view.from, Math.min(trial.end, trial.end / 5000), trial.end);
    view.from = clamp(view.from, 0, trial.end - span);
    view.to = view.from + span;
    view.lane = clamp(view.lane, least(), 26);
    view.top = clamp(view.top, 0, Math.max(world.lanes - room() / view.lane, 0));
  }
  const px = (time) => size.gutter + ((time - view.from) / (view.to - view.from)) * (size.width - size.gutter - 8);
  const time = (x) => view.from + ((x - size.gutter) / (size.width - size.gutter - 8)) * (view.to - view.from);
  const py = (lane) => size.top + (lane - view.top) * view.lane;

  function zoomTime(factor, at = (view.from + view.to) / 2) {
    const span = clamp((view.to - view.from) * factor, trial.end / 5000, trial.end);
    const share = (at - view.from) / (view.to - view.from);
    view.from = at - share * span;
    view.to = view.from + span;
    later();
  }
  function zoomRows(factor, y = size.height / 2) {
    const lane = view.top + (y - size.top) / view.lane;
    view.lane = clamp(view.lane * factor, least(), 26);
    view.top = lane - (y - size.top) / view.lane;
    later();
  }
  function move(dx, dy) {
    const span = view.to - view.from, shift = (dx / (size.width - size.gutter)) * span;
    view.from += shift; view.to += shift; view.top += dy / view.lane;
    later();
  }
  function later() {
    if (wanted) return;
    wanted = true;
    requestAnimationFrame(() => { wanted = false; draw(); });
  }

  // Coverage of every pixel by every kind: where a bar begins its weight is added, where it ends taken away, then summed up along the row.
  function drawDense(pen, first, last) {
    const width = Math.max(Math.ceil(size.width - size.gutter), 1), height = Math.max(Math.ceil(room()), 1), stride = width + 2;
    if (!sheet || sheet.width !== width || sheet.height !== height) {
      sheet = new OffscreenCanvas(width, height);
      image = new ImageData(width, height);
      sums = KINDS_OF_BARS.map(() => new Float32Array(stride * height));
    }
    const pixels = new Uint32Array(image.data.buffer), used = [false, false, false, false];
    sums.forEach((sum) => sum.fill(0));
    pixels.fill(0);
    const scale = (size.width - size.gutter - 8) / (view.to - view.from), weight = Math.min(view.lane, 1);
    for (let n = world.starts[first]; n < world.starts[last]; n++) {
      let a = (world.from[n] - view.from) * scale, b = (world.to[n] - view.from) * scale;
      if (b <= 0 || a >= width) continue;
      a = Math.max(a, 0); b = Math.min(b, width);
      const y = Math.floor((world.lane[n] - view.top) * view.lane);
      if (y < 0 || y >= height) continue;
      used[world.kind[n]] = true;
      const sum = sums[world.kind[n]], row = y * stride, left = Math.floor(a), right = Math.floor(b);
      if (left === right) { sum[row + left] += weight * (b - a); sum[row + left + 1] -= weight * (b - a); continue; }
      sum[row + left] += weight * (left + 1 - a); sum[row + left + 1] += weight * (a - left);
      sum[row + right] -= weight * (right + 1 - b); sum[row + right + 1] -= weight * (b - right);
    }
    const kinds = [0, 1, 2, 3].filter((kind) => used[kind]), inks = KINDS_OF_BARS.map(([name]) => rgb(css(name))), at = new Float64Array(4);
    for (let y = 0; y < height; y++) {
      at.fill(0);
      for (let x = 0; x < width; x++) {
        let all = 0, r = 0, g = 0, b = 0;
        for (const kind of kinds) {
          const v = (at[kind] += sums[kind][y * stride + x]), ink = inks[kind];
          if (v > 1e-4) { all += v; r += v * ink[0]; g += v * ink[1]; b += v * ink[2]; }
        }
        if (all > 0) pixels[y * width + x] = ((255 * Math.min(0.12 + 0.88 * all, 1)) << 24) | ((b / all) << 16) | ((g / all) << 8) | (r / all);
      }
    }
    sheet.getContext('2d').putImageData(image, 0, 0);
    pen.drawImage(sheet, size.gutter, size.top);
  }
  function rgb(hex) { return [1, 3, 5].map((n) => parseInt(hex.slice(n, n + 2), 16)); }

  function drawBars(pen, first, last) {
    const inks = KINDS_OF_BARS.map(([name]) => css(name)), thick = view.lane >= 4 ? view.lane - 1 : view.lane;
    const marked = hover >= 0 ? hover : found;
    pen.save();
    pen.beginPath(); pen.rect(size.gutter, size.top, size.width - size.gutter, room()); pen.clip();
    for (let n = world.starts[first]; n < world.starts[last]; n++) {
      if (world.to[n] < view.from || world.from[n] > view.to) continue;
      const a = Math.max(px(world.from[n]), size.gutter - 2), b = Math.min(px(world.to[n]), size.width + 2), y = py(world.lane[n]);
      pen.globalAlpha = marked >= 0 && world.owner[n] !== marked ? 0.3 : 1;
      pen.fillStyle = inks[world.kind[n]];
      pen.fillRect(a, y, Math.max(b - a, 0.7), thick);
      if (world.kind[n] === HELD && thick >= 6 && b - a > 5) {  // hatched: distinct without colour
        pen.strokeStyle = css('--paper'); pen.lineWidth = 1; pen.beginPath();
        for (let x = a - ((a + thick) % 7); x < b; x += 7) { const s = Math.max(x, a), e = Math.min(x + thick, b); if (e > s) { pen.moveTo(s, y + thick - (s - x)); pen.lineTo(e, y + thick - (e - x)); } }
        pen.stroke();
      }
      if (thick >= 10 && byNode && b - a > 40 && world.kind[n] !== WAITING) {
        const text = shorten(columns.names[world.owner[n]], Math.floor((b - a - 8) / 6));
        pen.font = `11px ${css('--sans')}`; pen.textAlign = 'left'; pen.textBaseline = 'middle';
        const wide = pen.measureText(text).width;
        if (world.kind[n] === HELD) { pen.fillStyle = css('--held'); pen.fillRect(a + 2, y + 1, wide + 4, thick - 2); }
        pen.fillStyle = world.kind[n] === HELD ? '#1b1b1b' : css('--paper');
        if (wide < b - a - 6) pen.fillText(text, a + 4, y + thick / 2 + 0.5);
      }
    }
    pen.restore();
  }

  function drawLabels(pen, first, last) {
    pen.font = `12px ${css('--sans')}`; pen.textBaseline = 'middle'; pen.textAlign = 'right';
    let free = -Infinity;
    const rows = world.rows, start = rows.findIndex((row) => row.first + row.lanes > first);
    for (let n = Math.max(start, 0); n < rows.length && rows[n].first < last; n++) {
      const row = rows[n], top = Math.max(py(row.first), size.top), bottom = Math.min(py(row.first + row.lanes), size.height - size.foot), mid = (top + bottom) / 2;
      if (byNode && view.lane * row.lanes >= 3 && n) { pen.fillStyle = css('--line'); pen.fillRect(0, py(row.first) - 0.5, size.width, 0.5); }
      if (mid - free < 13 || bottom < size.top || top > size.height - size.foot) continue;
      pen.fillStyle = row.clogged ? css('--bad') : css('--quiet');
      const most = Math.floor((size.gutter - 12) / 7), name = shorten(row.name, most);
      pen.fillText(row.clogged ? `${shorten(name, most - 2)} ●` : name, size.gutter - 8, mid);
      free = mid;
    }
  }

  function draw() {
    if (!world) return;
    measure();
    keep();
    const { canvas, pen } = canvasOf(mainBox, size.width, size.height);
    const first = Math.max(Math.floor(view.top), 0), last = Math.min(Math.ceil(view.top + room() / view.lane) + 1, world.lanes);
    pen.fillStyle = css('--panel'); pen.fillRect(size.gutter, size.top, size.width - size.gutter, room());
    const ticks = timeTicks(view.from, view.to, size.width < 560 ? 3 : 7);
    pen.font = `12px ${css('--sans')}`; pen.textBaseline = 'alphabetic'; pen.textAlign = 'center';
    for (const value of ticks.values) {
      pen.fillStyle = css('--faint'); pen.fillRect(px(value), size.top, 1, room());
      pen.fillStyle = css('--quiet');
      if (px(value) < size.width - 20) pen.fillText(clock(value, ticks.step), Math.max(px(value), size.gutter + 12), size.height - 6);
    }
    if (view.lane < 1.5) drawDense(pen, first, last); else drawBars(pen, first, last);
    drawLabels(pen, first, last);
    drawClog(pen, true);
    canvas.dataset.window = `${view.from},${view.to}`;
    canvas.dataset.rows = `${view.top},${view.lane}`;
    drawOverview();
    listen(canvas);
  }
  function drawClog(pen, named) {
    if (!trial.clog || trial.clog.at === null) return;
    const at = px(trial.clog.at);
    if (at < size.gutter - 1 || at > size.width) return;
    pen.fillStyle = css('--bad');
    pen.fillRect(at - 1, size.top, 2, room());
    if (!named) return;
    pen.font = `600 12px ${css('--sans')}`; pen.textBaseline = 'top';
    const text = `clog: ${trial.clog.kind}`, wide = pen.measureText(text).width + 12, x = clamp(at - wide - 4, size.gutter, size.width);
    pen.fillRect(x, size.top + 4, wide, 20);
    pen.fillStyle = css('--paper'); pen.textAlign = 'left';
    pen.fillText(text, x + 6, size.top + 8);
  }

  // Amounts over time; the part in view is highlighted and can be dragged.
  function drawOverview() {
    const width = size.width, height = 58, { canvas, pen } = canvasOf(overviewBox, width, height);
    const left = size.gutter, wide = width - left - 8, bins = Math.max(Math.floor(wide / 2), 1);
    if (!world.density || world.density.bins !== bins) {
      const sums = KINDS_OF_BARS.map(() => new Float32Array(bins + 2)), scale = bins / trial.end;
      for (let n = 0; n < world.from.length; n++) {
        const a = clamp(world.from[n] * scale, 0, bins), b = clamp(world.to[n] * scale, 0, bins), i = Math.floor(a), j = Math.floor(b), sum = sums[world.kind[n]];
        if (i === j) { sum[i] += b - a; sum[i + 1] -= b - a; continue; }
        sum[i] += i + 1 - a; sum[i + 1] += a - i; sum[j] -= j + 1 - b; sum[j + 1] -= b - j;
      }
      let most = 1e-9;
      for (const sum of sums) for (let n = 1; n < bins; n++) sum[n] += sum[n - 1];
      for (let n = 0; n < bins; n++) most = Math.max(most, sums[0][n] + sums[1][n] + sums[2][n] + sums[3][n]);
      world.density = { bins, sums, most };
    }
    const { sums, most } = world.density, inks = KINDS_OF_BARS.map(([name]) => css(name));
    for (let n = 0; n < bins; n++) {
      let base = height - 4;
      for (const kind of [RUNS, HELD, ENDING, WAITING]) {
        const tall = (sums[kind][n] / most) * (height - 16);
        if (tall < 0.05) continue;
        pen.fillStyle = inks[kind];
        pen.fillRect(left + (n / bins) * wide, base - tall, wide / bins + 0.3, tall);
        base -= tall;
      }
    }
    pen.font = `12px ${css('--sans')}`; pen.fillStyle = css('--quiet'); pen.textAlign = 'right'; pen.textBaseline = 'middle';
    pen.fillText(`${Math.round(most).toLocaleString('en')} ${byNode ? 'pods' : size.gutter < 100 ? '' : 'workloads'}`, left - 8, 12);
    pen.fillText('0', left - 8, height - 6);
    const a = left + (view.from / trial.end) * wide, b = left + (view.to / trial.end) * wide;
    pen.fillStyle = css('--paper'); pen.globalAlpha = 0.72;
    pen.fillRect(left, 0, a - left, height - 4); pen.fillRect(b, 0, left + wide - b, height - 4);
    pen.globalAlpha = 1; pen.strokeStyle = css('--quiet'); pen.lineWidth = 1;
    pen.strokeRect(a + 0.5, 0.5, Math.max(b - a - 1, 2), height - 5);
    if (canvas.dataset.listens) return;
    canvas.dataset.listens = 'true';
    canvas.setAttribute('role', 'img');
    canvas.setAttribute('aria-label', 'How much ran and how much waited over the whole time');
    canvas.style.cursor = 'grab';
    canvas.style.touchAction = 'pan-y';
    const centre = (event) => {
      const rect = canvas.getBoundingClientRect(), span = view.to - view.from;
      view.from = ((event.clientX - rect.left - size.gutter) / (size.width - size.gutter - 8)) * trial.end - span / 2;
      view.to = view.from + span;
      later();
    };
    canvas.addEventListener('pointerdown', (event) => { canvas.setPointerCapture(event.pointerId); centre(event); });
    canvas.addEventListener('pointermove', (event) => { if (event.buttons) centre(event); });
  }

  function segmentAt(x, y) {
    const lane = Math.floor(view.top + (y - size.top) / view.lane), when = time(x), slack = (2 * (view.to - view.from)) / size.width;
    if (lane < 0 || lane >= world.lanes || x < size.gutter) return -1;
    let best = -1;
    for (let n = world.starts[lane]; n < world.starts[lane + 1]; n++) if (world.from[n] - slack <= when && when <= world.to[n] + slack) best = n;
    return best;
  }
  function wordsOf(n) {
    const owner = world.owner[n], pod = world.pod[n], unit = trial.unit;
    const at = (label, value) => (value < 0 ? '' : `\n${label} ${seconds(value * unit)}`);
    const head = `${columns.names[owner]}${columns.size[owner] > 1 ? `, ${columns.size[owner]} pods` : ''}`;
    if (pod >= 0) return `${head}\non ${columns.nodes[columns.pod_node[pod]]}${at('bound', columns.pod_bound[pod])}${at('started', columns.pod_started[pod])}${at(columns.pod_lost[pod] ? 'lost' : 'finished', columns.pod_ended[pod])}`;
    return `${head}\n${KINDS_OF_BARS[world.kind[n]][1]}${at('submitted', columns.submitted[owner])}${at('running', columns.running[owner])}${at('finished', columns.finished[owner])}${at('completed', columns.completed[owner])}${at('failed or deleted', columns.gone[owner])}`;
  }

  function listen(canvas) {
    if (canvas.dataset.listens) return;
    canvas.dataset.listens = 'true';
    canvas.tabIndex = 0;
    canvas.setAttribute('role', 'application');
    canvas.setAttribute('aria-label', 'Timeline. Arrow keys move, + and - zoom the time, * and / the rows, 0 shows everything.');
    canvas.style.touchAction = 'pan-y';
    const fingers = new Map();
    let pinch = 0;
    canvas.addEventListener('pointerdown', (event) => {
      canvas.focus({ preventScroll: true });
      canvas.setPointerCapture(event.pointerId);
      fingers.set(event.pointerId, [event.clientX, event.clientY]);
      pinch = 0;
    });
    const lift = (event) => { fingers.delete(event.pointerId); pinch = 0; };
    canvas.addEventListener('pointerup', lift);
    canvas.addEventListener('pointercancel', lift);
    canvas.addEventListener('pointermove', (event) => {
      const rect = canvas.getBoundingClientRect(), before = fingers.get(event.pointerId);
      if (before) {
        fingers.set(event.pointerId, [event.clientX, event.clientY]);
        if (fingers.size === 1) move(before[0] - event.clientX, before[1] - event.clientY);
        else {
          const [[ax], [bx]] = [...fingers.values()], far = Math.max(Math.abs(ax - bx), 10);
          if (pinch) zoomTime(pinch / far, time((ax + bx) / 2 - rect.left));
          pinch = far;
        }
        hideTip();
        return;
      }
      const n = segmentAt(event.clientX - rect.left, event.clientY - rect.top), owner = n < 0 ? -1 : world.owner[n];
      if (owner !== hover) { hover = owner; if (view.lane >= 1.5) later(); }
      if (n >= 0) showTip(wordsOf(n), event.clientX, event.clientY); else hideTip();
    });
    canvas.addEventListener('pointerleave', () => { hideTip(); if (hover >= 0) { hover = -1; later(); } });
    canvas.addEventListener('dblclick', (event) => zoomTime(0.5, time(event.clientX - canvas.getBoundingClientRect().left)));
    canvas.addEventListener('wheel', (event) => {
      if (document.activeElement !== canvas && !event.ctrlKey) return;  // the wheel scrolls the page until a click here
      event.preventDefault();
      const rect = canvas.getBoundingClientRect(), factor = Math.exp(clamp(event.deltaY || event.deltaX, -200, 200) / 400);
      if (event.shiftKey) zoomRows(1 / factor, event.clientY - rect.top); else zoomTime(factor, time(event.clientX - rect.left));
    }, { passive: false });
    canvas.addEventListener('keydown', (event) => {
      const acts = {
        ArrowLeft: () => move(-60, 0), ArrowRight: () => move(60, 0), ArrowUp: () => move(0, -60), ArrowDown: () => move(0, 60),
        '+': () => zoomTime(0.7), '=': () => zoomTime(0.7), '-': () => zoomTime(1 / 0.7), '*': () => zoomRows(1.5), '/': () => zoomRows(1 / 1.5),
        0: reset, Escape: () => canvas.blur(),
      };
      if (acts[event.key]) { event.preventDefault(); acts[event.key](); }
    });
  }

  function find(text) {
    found = text ? columns.names.findIndex((name) => name.includes(text)) : -1;
    if (found >= 0) {
      const n = world.owner.indexOf(found);
      if (n >= 0) {
        view.lane = Math.max(view.lane, 12);
        view.top = world.lane[n] - room() / view.lane / 2;
        const span = Math.min(view.to - view.from, trial.end);
        view.from = clamp(world.from[n] - span / 3, 0, trial.end); view.to = view.from + span;
      }
    }
    later();
  }

  if (data.trials.length > 1) controls.append(select('Trial', data.trials.map((one) => one.label), chosen, async (n) => { chosen = n; await load(); }));
  controls.append(
    choice(['nodes', 'workloads'], 0, (n) => { byNode = n === 0; arrange(); }, 'rows'),
    el('span', { class: 'group' }, 'time', button('+', 'zoom in on the time', () => zoomTime(0.6)), button('−', 'zoom out of the time', () => zoomTime(1 / 0.6))),
    el('span', { class: 'group' }, 'rows', button('+', 'taller rows', () => zoomRows(1.6)), button('−', 'lower rows', () => zoomRows(1 / 1.6)),
      button('▲', 'rows above', () => move(0, -room() * 0.8)), button('▼', 'rows below', () => move(0, room() * 0.8))),
    button('all', 'show everything', () => { found = -1; reset(); }),
    el('label', {}, el('input', { type: 'search', placeholder: 'find a workload', 'aria-label': 'find a workload', oninput: (event) => find(event.target.value) })),
  );
  await load();
  return () => {
    keys.replaceChildren(...KINDS_OF_BARS.map(([name, text]) => { const swatch = el('i'); swatch.style.background = css(name); return el('span', {}, swatch, text); }));
    draw();
  };
};
