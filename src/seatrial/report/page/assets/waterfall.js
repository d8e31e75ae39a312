// Where the time went: a panel for each set-up, a row for each step; a bar begins where the one before it ended.

charts.waterfall = (figure, data) => {
  const plot = figure.querySelector('.plot'), controls = figure.querySelector('.controls');
  let chosen = data.chosen, shares = true;
  if (data.combinations.length > 1) controls.append(select('Params', data.combinations, chosen, (n) => { chosen = n; draw(); }));
  controls.append(choice(['share of turnaround', 'seconds, one scale'], 0, (n) => { shares = n === 0; draw(); }, 'scale'));

  function panelOf(panel, longest) {
    const total = panel.rows.reduce((sum, row) => sum + (row.took || 0), 0);
    const scale = shares ? total : longest;
    const most = Math.max(...panel.rows.map((row) => row.took || 0));
    const ink = colour(placeOf(panel.setup));
    const rows = el('div', { class: 'rows' });
    let start = 0;
    for (const row of panel.rows) {
      const bar = el('i');
      const took = row.took;
      bar.style.background = ink;
      if (took !== null && scale > 0) {
        bar.style.left = `${clamp((start / scale) * 100, 0, 100)}%`;
        bar.style.width = `${clamp((Math.max(took, 0) / scale) * 100, 0, 100)}%`;
        bar.style.opacity = took === most ? 1 : 0.45;
        start += took;
      }
      const value = took === null ? '–' : shares ? `${Math.round((took / (total || 1)) * 100)} %` : seconds(took);
      const line = el('div', { class: 'row' },
        el('span', { class: 'stage' }, row.stage, row.reached < panel.submitted ? el('small', { class: 'bad' }, ` ${row.reached.toLocaleString('en')}`) : ''),
        el('span', { class: 'lane' }, bar), el('span', { class: 'value' }, value));
      tipped(line, `${row.stage}: ${row.about}\n${took === null ? 'nothing completed' : `${seconds(took)} on average, ${number((took / (total || 1)) * 100)} % of turnaround`}\nreached by ${row.reached.toLocaleString('en')} of ${plural(panel.submitted, 'workload')}`);
      rows.append(line);
    }
    const ends = shares ? ['0', '100 %'] : ['0', seconds(scale)];
    rows.append(el('div', { class: 'row ends', 'aria-hidden': 'true' }, el('span'), el('span', {}, el('span', {}, ends[0]), el('span', {}, ends[1])), el('span')));
    const done = panel.completed ? `mean turnaround ${seconds(total)} of ${panel.completed.toLocaleString('en')} completed` : 'nothing completed';
    const short = panel.completed < panel.submitted;
    return el('div', {}, el('h4', {}, panel.setup), el('p', { class: short ? 'note bad' : 'note' }, `${done}${short ? `, ${(panel.submitted - panel.completed).toLocaleString('en')} not` : ''}`), rows);
  }

  function draw() {
    const panels = data.panels[chosen];
    const longest = Math.max(...panels.map((panel) => panel.rows.reduce((sum, row) => sum + (row.took || 0), 0)), 1e-9);
    // One width of labels for all panels, so that bars compare; an average letter takes half an em.
    const label = (panel) => Math.max(...panel.rows.map((row) => row.stage.length + (row.reached < panel.submitted ? String(row.reached).length + 2 : 0)), 10);
    plot.style.setProperty('--label', `${0.53 * Math.max(...panels.map(label), 10)}em`);
    plot.replaceChildren(el('div', { class: 'multiples' }, ...panels.map((panel) => panelOf(panel, longest))));
    if (!panels.length) plot.replaceChildren('No trial with these params can be trusted.');
  }
  return draw;
};
