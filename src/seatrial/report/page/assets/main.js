// Light and dark mode, sorting, bars of the ranking, and charts, which are made when first in view.

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  document.getElementById('theme').setAttribute('aria-pressed', String(theme === 'dark'));
}
const prefersDark = matchMedia('(prefers-color-scheme: dark)');
let chosenTheme = null;
const wantedTheme = () => chosenTheme || (prefersDark.matches ? 'dark' : 'light');
function redraw() {
  bars();
  for (const draw of drawn.values()) draw();
}
setTheme(wantedTheme());
prefersDark.addEventListener('change', () => { setTheme(wantedTheme()); redraw(); });
document.getElementById('theme').addEventListener('click', () => {
  chosenTheme = wantedTheme() === 'dark' ? 'light' : 'dark';
  setTheme(chosenTheme);
  redraw();
});

function bars() {
  for (const line of document.querySelectorAll('.ranking li')) {
    const bar = line.querySelector('.bar');
    bar.style.width = bar.dataset.width ? `${bar.dataset.width}%` : '0';
    bar.style.background = colour(placeOf(line.dataset.setup));
  }
}

function sortBy(table, place, heading) {
  const headings = [...table.tHead.rows[0].cells];
  const down = heading.getAttribute('aria-sort') === 'ascending';
  headings.forEach((one) => one.removeAttribute('aria-sort'));
  heading.setAttribute('aria-sort', down ? 'descending' : 'ascending');
  const body = table.tBodies[0], rows = [...body.rows];
  const keys = new Map(rows.map((row) => [row, row.cells[place].dataset.value]));
  const numeric = [...keys.values()].every((key) => key === undefined || key === '' || Number.isFinite(Number(key)));
  rows.sort((a, b) => {
    const one = keys.get(a), two = keys.get(b);
    if (one === undefined || two === undefined) return (one === undefined) - (two === undefined);
    const order = numeric ? Number(one) - Number(two) : one.localeCompare(two, 'en', { numeric: true });
    return down ? -order : order;
  });
  body.append(...rows);
}
for (const table of document.querySelectorAll('table.sortable')) {
  [...table.tHead.rows[0].cells].forEach((heading, place) => {
    heading.querySelector('button').addEventListener('click', () => sortBy(table, place, heading));
  });
}
for (const copy of document.querySelectorAll('.copy')) {
  copy.addEventListener('click', async () => {
    const code = copy.parentElement.querySelector('code');
    getSelection().selectAllChildren(code);
    try { await navigator.clipboard.writeText(code.textContent); copy.textContent = 'Copied'; } catch { copy.textContent = 'Selected: press Ctrl-C'; }
  });
}

// A chart is made when it comes near, so the page opens fast.
async function make(figure) {
  if (drawn.has(figure)) return;
  drawn.set(figure, () => {});
  const data = JSON.parse(figure.querySelector('script').textContent);
  const draw = await charts[figure.dataset.chart](figure, data);
  drawn.set(figure, draw);
  draw();
  figure.dataset.ready = 'true';
  let width = figure.clientWidth;
  new ResizeObserver(() => {
    if (figure.clientWidth === width) return;
    width = figure.clientWidth;
    draw();
  }).observe(figure);
}
const figures = [...document.querySelectorAll('figure[data-chart]')];
const near = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) { near.unobserve(entry.target); make(entry.target); }
}, { rootMargin: '600px 0px' });
figures.forEach((figure) => near.observe(figure));
// The others are made when the browser is idle, so that printing finds them ready.
const idle = window.requestIdleCallback || ((then) => setTimeout(then, 200));
async function makeNext() {
  const figure = figures.find((one) => !drawn.has(one));
  if (!figure) return;
  await make(figure);
  idle(makeNext);
}
addEventListener('load', () => setTimeout(() => idle(makeNext), 1000));
// Printing uses the light theme and makes all charts.
addEventListener('beforeprint', () => { setTheme('light'); figures.forEach(make); redraw(); });
addEventListener('afterprint', () => { setTheme(wantedTheme()); redraw(); });
bars();
