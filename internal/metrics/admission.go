package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"pushq/tasks"
)

var (
	admissionRefusing = prometheus.NewDesc("pushq_admission_refusing",
		"1 while new pushes are refused because Redis is nearly full or takes no writes.", nil, nil)
	admissionRefused = prometheus.NewDesc("pushq_admission_refused_total",
		"New pushes refused for that, by reason.", []string{"reason"}, nil)
)

// FollowAdmission adds the metrics of what turns new pushes away.
func (m *Metrics) FollowAdmission(stats func() tasks.AdmissionStats) {
	m.registry.MustRegister(admissionCollector(stats))
}

type admissionCollector func() tasks.AdmissionStats

func (c admissionCollector) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- admissionRefusing
	descriptions <- admissionRefused
}

func (c admissionCollector) Collect(metrics chan<- prometheus.Metric) {
	stats := c()
	metrics <- gauge(admissionRefusing, oneIf(stats.Refusing != ""))
	for reason, count := range stats.Refused {
		metrics <- prometheus.MustNewConstMetric(admissionRefused, prometheus.CounterValue, float64(count), reason)
	}
}
