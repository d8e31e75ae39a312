// What all charts share: elements, numbers in words, colours, tool tips, packed columns. Foreign text only goes into textContent.

const SETUPS = JSON.parse(document.getElementById('setups').textContent);
const DASHES = ['', '7 3', '2 3', '10 3 2 3', '4 2', '1 4', '12 4', '6 2 2 2', '3 3'];
const SVG = 'http://www.w3.org/2000/svg';
const charts = {};  // kind → (figure, data) → function that draws it, called again when size or colours change
const drawn = new Map();

function el(name, attributes = {}, ...inside) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === 'class') made.className = value;
    else if (key.startsWith('on')) made.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...inside.filter((one) => one !== null));
  return made;
}

function svg(name, attributes = {}, ...inside) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...inside);
  return made;
}

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const colour = (place) => css(`--c${((place % 9) + 9) % 9}`);
const placeOf = (setup) => Math.max(SETUPS.indexOf(setup), 0);
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
const shorten = (text, most) => (text.length <= most ? text : `${text.slice(0, Math.max(most - 1, 1))}…`);
const dashOf = (place) => DASHES[(place + Math.floor(place / 9)) % 9];  // beyond nine colours the dash differs
const plural = (count, thing) => `${count.toLocaleString('en')} ${thing}${count === 1 ? '' : 's'}`;

function number(value, digits = 3) {
  return Number(value.toPrecision(digits)).toLocaleString('en', { maximumFractionDigits: 6 });
}
function seconds(value) {
  const size = Math.abs(value);
  if (size > 0 && size < 0.995) return `${number(value * 1000)} ms`;
  if (size >= 3599.5) {
    const minutes = Math.round(size / 60);
    return `${value < 0 ? '-' : ''}${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, '0')} m`;
  }
  return size >= 1000 ? `${Math.round(value).toLocaleString('en')} s` : `${number(value)} s`;
}
function clock(value, step) {
  if (step >= 86400 && value >= 86400) return `${number(value / 86400, 6)} d`;
  if (step >= 30 && value >= 60) {
    const minutes = Math.floor(value / 60 + 1e-9), rest = Math.round(value - minutes * 60);
    const hours = Math.floor(minutes / 60);
    return hours ? `${hours} h${minutes % 60 || rest ? ` ${minutes % 60} min` : ''}` : `${minutes} min${rest ? ` ${rest} s` : ''}`;
  }
  const decimals = clamp(Math.ceil(-Math.log10(step) - 1e-9), 0, 6);
  return `${value.toLocaleString('en', { minimumFractionDigits: decimals, maximumFractionDigits: decimals })} s`;
}

// Round steps for an axis, about `count` of them.
function ticksOf(low, high, about) {
  const raw = (high - low) / Math.max(about, 1) || 1, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((one) => one * power >= raw * 0.999) * power;
  const found = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high * (1 + 1e-12) + 1e-12; n++) found.push(n * step + 0);
  return { step, values: found };
}

// The same for time: minutes and hours are not decimal, days are.
function timeTicks(low, high, about) {
  const raw = (high - low) / Math.max(about, 1);
  if (raw <= 20) return ticksOf(low, high, about);
  const step = [30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200].find((one) => one >= raw) || Math.max(ticksOf(0, (high - low) / 86400, about).step, 1) * 86400;
  const values = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high; n++) values.push(n * step + 0);
  return { step, values };
}

// Markers repeat the colour, for print and colour-blind readers.
function marker(place, x, y, size, fill) {
  const s = size, shapes = [
    `M${x - s},${y}a${s},${s} 0 1,0 ${2 * s},0a${s},${s} 0 1,0 ${-2 * s},0`,
    `M${x - s},${y - s}h${2 * s}v${2 * s}h${-2 * s}z`,
    `M${x},${y - s * 1.3}l${s * 1.3},${s * 1.3}l${-s * 1.3},${s * 1.3}l${-s * 1.3},${-s * 1.3}z`,
    `M${x},${y - s * 1.2}l${s * 1.2},${s * 2.2}h${-s * 2.4}z`,
    `M${x},${y + s * 1.2}l${s * 1.2},${-s * 2.2}h${-s * 2.4}z`,
    `M${x - s / 2.5},${y - s * 1.2}h${s / 1.25}v${s * 0.8}h${s * 0.8}v${s / 1.25}h${-s * 0.8}v${s * 0.8}h${-s / 1.25}v${-s * 0.8}h${-s * 0.8}v${-s / 1.25}h${s * 0.8}z`,
    `M${x - s},${y - s}l${2 * s},${2 * s}m0,${-2 * s}l${-2 * s},${2 * s}`,
    `M${x - s * 1.2},${y}l${s * 2.2},${-s * 1.2}v${s * 2.4}z`,
    `M${x + s * 1.2},${y}l${-s * 2.2},${-s * 1.2}v${s * 2.4}z`,
  ];
  const line = place % 9 === 6;
  return svg('path', { d: shapes[place % 9], fill: line ? 'none' : fill, stroke: fill, 'stroke-width': line ? 2 : 0.5 });
}

function legend(names, places = names.map(placeOf)) {
  return el('div', { class: 'legend' }, ...names.map((name, n) => {
    const ink = colour(places[n]);
    const line = svg('line', { x1: 0, x2: 30, y1: 7, y2: 7, stroke: ink, 'stroke-width': 2, 'stroke-dasharray': dashOf(places[n]) });
    const label = el('span', {}, svg('svg', { width: 30, height: 14, 'aria-hidden': 'true' }, line, marker(places[n], 15, 7, 4, ink)));
    label.append(shorten(name, 60));
    label.title = name;
    return label;
  }));
}

const tip = document.getElementById('tip');
function showTip(text, x, y) {
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${clamp(x + 14, 4, innerWidth - box.width - 4)}px`;
  tip.style.top = `${y + 18 + box.height > innerHeight ? Math.max(y - box.height - 10, 4) : y + 18}px`;
}
function hideTip() { tip.hidden = true; }
function tipped(element, text) {
  element.addEventListener('pointermove', (event) => showTip(text, event.clientX, event.clientY));
  element.addEventListener('pointerleave', hideTip);
  return element;
}
addEventListener('scroll', hideTip, { passive: true });

// Columns as packing.py wrote them: gzip, the lowest bytes of all numbers first, differences, small ones of either sign small.
async function unpack(packed) {
  const text = atob(packed.gz), raw = new Uint8Array(text.length);
  for (let n = 0; n < raw.length; n++) raw[n] = text.charCodeAt(n);
  const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream('gzip'));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const found = JSON.parse(new TextDecoder().decode(bytes.subarray(0, packed.texts)));
  let at = packed.texts;
  for (const [name, length] of packed.columns) {
    const column = new Int32Array(length);
    let last = 0;
    for (let n = 0; n < length; n++) {
      const zigzag = (bytes[at + n] | (bytes[at + length + n] << 8) | (bytes[at + 2 * length + n] << 16) | (bytes[at + 3 * length + n] << 24)) >>> 0;
      last += (zigzag >>> 1) ^ -(zigzag & 1);
      column[n] = last;
    }
    found[name] = column;
    at += 4 * length;
  }
  return found;
}

function select(label, options, chosen, change) {
  const box = el('select', { onchange: () => change(Number(box.value)) });
  options.forEach((text, n) => {
    const option = el('option', { value: n });
    option.textContent = shorten(text, 90);
    box.append(option);
  });
  box.value = chosen;
  return el('label', {}, `${label} `, box);
}

function choice(options, chosen, change, label) {
  const group = el('span', { role: 'group', 'aria-label': label });
  const buttons = options.map((text, n) => el('button', { type: 'button', 'aria-pressed': String(n === chosen), onclick: () => {
    buttons.forEach((one, place) => one.setAttribute('aria-pressed', String(place === n)));
    change(n);
  } }, text));
  group.append(...buttons.flatMap((one, n) => (n ? [' ', one] : [one])));
  return group;
}

function button(text, label, act) {
  return el('button', { type: 'button', 'aria-label': label, title: label, onclick: act }, text);
}

// A canvas as sharp as the screen, in units of the page.
function canvasOf(plot, width, height) {
  const canvas = plot.querySelector('canvas') || plot.appendChild(el('canvas'));
  const sharp = Math.min(devicePixelRatio || 1, 2);
  canvas.width = Math.round(width * sharp);
  canvas.height = Math.round(height * sharp);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext('2d');
  pen.setTransform(sharp, 0, 0, sharp, 0, 0);
  return { canvas, pen, sharp };
}
