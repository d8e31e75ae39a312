// Wait-for graph: workloads in a ring, an arrow from a waiting workload to one that holds what it needs.

charts.clog = (figure, data) => {
  const plot = figure.querySelector('.plot'), controls = figure.querySelector('.controls');
  let chosen = 0, picked = -1;
  if (data.clogs.length > 1) controls.append(select('Clog', data.clogs.map((one) => one.label), 0, (n) => { chosen = n; picked = -1; draw(); }));

  // The edges begin with the ring, which ends when it is back at the first waiter.
  function ringOf(clog) {
    const ring = new Set();
    for (const [n, edge] of clog.edges.entries()) {
      ring.add(n);
      if (edge.holder === clog.edges[0].waiter) return ring;
      if (ring.size > clog.members.length) break;
    }
    return new Set();
  }

  function graph(clog, width) {
    const count = clog.members.length, ring = ringOf(clog), narrow = width < 560;
    const height = narrow ? width * 1.02 : clamp(count * 46, 300, 470), cx = width / 2, cy = height / 2;
    const box = { w: narrow ? 96 : 148, h: 46 }, rx = Math.min(cx - box.w / 2 - 6, 360), ry = cy - box.h / 2 - 8;
    const picture = svg('svg', { width, height, viewBox: `0 0 ${width} ${height}`, role: 'group', 'aria-label': `Who waits for whom: ${clog.label}` });
    const order = orderOf(clog, ring);
    const at = [];
    order.forEach((member, n) => { const angle = (n / count) * 2 * Math.PI - Math.PI / 2; at[member] = [cx + (count > 1 ? rx * Math.cos(angle) : 0), cy + (count > 1 ? ry * Math.sin(angle) : 0)]; });
    const tips = svg('defs');
    ['bad', 'quiet'].forEach((name) => tips.append(svg('marker', { id: `tip-${name}`, viewBox: '0 0 10 10', refX: 9, refY: 5, markerWidth: 7, markerHeight: 7, orient: 'auto-start-reverse' }, svg('path', { d: 'M0,0L10,5L0,10z', fill: css(`--${name}`) }))));
    picture.append(tips);
    const arrows = clog.edges.map((edge, n) => [edge, n]).sort((a, b) => ring.has(a[1]) - ring.has(b[1]));
    for (const [edge, n] of arrows) {
      const strong = picked >= 0 ? edge.waiter === picked || edge.holder === picked : ring.has(n);
      const [ax, ay] = at[edge.waiter], [bx, by] = at[edge.holder];
      const [sx, sy] = border(ax, ay, bx, by, box), [ex, ey] = border(bx, by, ax, ay, box);
      const bend = 0.12, mx = (sx + ex) / 2 + (ey - sy) * bend, my = (sy + ey) / 2 - (ex - sx) * bend;
      const ink = css(strong ? '--bad' : '--quiet');
      const path = svg('path', { d: `M${sx},${sy}Q${mx},${my} ${ex},${ey}`, fill: 'none', stroke: ink, 'stroke-width': strong ? 2 : 1, opacity: strong ? 1 : 0.22, 'stroke-dasharray': strong ? '' : '4 4', 'marker-end': `url(#tip-${strong ? 'bad' : 'quiet'})` });
      const wide = svg('path', { d: `M${sx},${sy}Q${mx},${my} ${ex},${ey}`, fill: 'none', stroke: 'transparent', 'stroke-width': 12 });
      picture.append(path, tipped(wide, `${clog.members[edge.waiter].name} waits for ${clog.members[edge.holder].name}\nwhich holds ${edge.amount}\non ${edge.where.join(', ')}`));
    }
    clog.members.forEach((member, n) => {
      const [x, y] = at[n], chosenOne = n === picked;
      const group = svg('g', { tabindex: 0, role: 'button', 'aria-pressed': String(chosenOne), 'aria-label': sentence(clog, n), class: 'member' });
      group.append(svg('rect', { x: x - box.w / 2, y: y - box.h / 2, width: box.w, height: box.h, rx: 9, fill: css('--panel'), stroke: css(chosenOne ? '--bad' : '--quiet'), 'stroke-width': chosenOne ? 2.5 : 1.2 }));
      group.append(svg('text', { x, y: y - 5, 'text-anchor': 'middle', class: 'strong' }, shorten(member.name, narrow ? 13 : 20)));
      if (member.size) group.append(...pips(member, x, y + 11, box.w - 16));
      const pick = () => { picked = chosenOne ? -1 : n; draw(); plot.querySelectorAll('.member')[n].focus({ preventScroll: true }); };
      group.addEventListener('click', pick);
      group.addEventListener('keydown', (event) => { if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); pick(); } });
      picture.append(tipped(group, sentence(clog, n)));
    });
    return picture;
  }

  function orderOf(clog, ring) {
    const order = [], edges = [...ring].map((n) => clog.edges[n]);
    edges.forEach((edge) => { for (const member of [edge.waiter, edge.holder]) if (!order.includes(member)) order.push(member); });
    clog.members.forEach((_, n) => { if (!order.includes(n)) order.push(n); });
    return order;
  }
  function border(x, y, tx, ty, box) {
    const dx = tx - x || 1e-6, dy = ty - y || 1e-6, share = Math.min((box.w / 2 + 3) / Math.abs(dx), (box.h / 2 + 3) / Math.abs(dy));
    return [x + dx * share, y + dy * share];
  }
  // A square for every pod: filled if it has a node.
  function pips(member, x, y, room) {
    if (member.size > 12) return [svg('text', { x, y: y + 4, 'text-anchor': 'middle' }, `${member.placed} of ${member.size} pods placed`)];
    const step = Math.min(room / member.size, 12), left = x - (step * member.size) / 2;
    return Array.from({ length: member.size }, (_, n) => svg('rect', { x: left + n * step + 1, y: y - 4, width: step - 2.5, height: step - 2.5, rx: 1.5, fill: n < member.placed ? css('--held') : 'none', stroke: css(n < member.placed ? '--held' : '--quiet'), 'stroke-width': 1 }));
  }
  function sentence(clog, n) {
    const member = clog.members[n], name = member.name;
    const holds = [...new Set(clog.edges.filter((edge) => edge.waiter === n).map((edge) => clog.members[edge.holder].name))];
    const by = [...new Set(clog.edges.filter((edge) => edge.holder === n).map((edge) => clog.members[edge.waiter].name))];
    const parts = [member.size ? `${name} has places for ${member.placed} of its ${plural(member.size, 'pod')}${member.nodes.length ? ` (on ${member.nodes.slice(0, 8).join(', ')}${member.nodes.length > 8 ? ' …' : ''})` : ''}.` : `${name}.`];
    if (holds.length) parts.push(`It waits for what ${holds.slice(0, 6).join(', ')}${holds.length > 6 ? ' …' : ''} hold${holds.length === 1 ? 's' : ''}.`);
    if (by.length) parts.push(`Its holdings are awaited by ${by.slice(0, 6).join(', ')}${by.length > 6 ? ' …' : ''} wait${by.length === 1 ? 's' : ''} for.`);
    if (member.said) parts.push(`Message: ${member.said}`);
    return parts.join(' ');
  }

  function draw() {
    const clog = data.clogs[chosen];
    const lines = el('div', {});
    lines.append(el('p', {}, el('b', {}, clog.label), ` (${clog.trial}). `, clog.means ? `Meaning: ${clog.means}. ` : '', clog.proven ? 'Proven from the state at that moment.' : 'Nothing moved any more; this is the likely reason.'));
    lines.append(el('p', { class: 'words' }, clog.summary));
    const words = el('p', { class: 'picked', role: 'status' }, picked >= 0 ? sentence(clog, picked) : '');
    plot.replaceChildren(lines);
    if (clog.edges.length) plot.append(graph(clog, plot.clientWidth), el('p', { class: 'note' }, 'A filled square is a pod with a node, an empty square a pod that waits for one.'), words);
    if (clog.left_out) plot.append(el('p', { class: 'note' }, `${plural(clog.left_out, 'more workload')} not drawn: see clog in trial.json.`));
    if (clog.amounts.length) {
      const list = el('dl', { class: 'facts' });
      for (const [name, amount] of clog.amounts) list.append(el('div', {}, el('dt', {}, name), el('dd', {}, amount)));
      plot.append(list);
    }
    if (clog.waiters_in_all) plot.append(el('details', {}, el('summary', {}, `${plural(clog.waiters_in_all, 'workload')} waiting behind them`), el('p', { class: 'words' }, clog.waiters.join(', ') + (clog.waiters_in_all > clog.waiters.length ? ' …' : ''))));
    for (const said of clog.words) plot.append(el('blockquote', { class: 'words' }, said));
  }
  return draw;
};
